#!/bin/sh
exec java -Xmx128m org.apache.kafka.tools.BrokerApiVersionsCommand "$@"
