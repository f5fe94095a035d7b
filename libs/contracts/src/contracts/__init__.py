"""What any two services share: topics, values, error codes. No I/O."""
