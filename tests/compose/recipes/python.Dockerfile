# What the services' Dockerfile uses of python:3.12-slim-bookworm, with Debian's Python; pip trusts whom this machine trusts.
FROM sluice-stand-in-debian
COPY ca-certificates.crt /etc/ssl/certs/
COPY pip.conf /etc/
RUN ln -s /usr/bin/python3 /usr/local/bin/python && rm -f /usr/lib/python3*/EXTERNALLY-MANAGED
