# What compose uses of apache/kafka: KAFKA_* become server.properties (by Kafka's own class), one tool, a user of its own.
FROM sluice-stand-in-debian
RUN useradd --create-home --uid 1000 appuser \
    && install -d -o appuser /opt/kafka/config /mnt/shared/config /etc/kafka/docker /var/lib/kafka/data
COPY java /opt/java
COPY libs /opt/kafka/libs
COPY kafka-broker-api-versions.sh /opt/kafka/bin/
COPY kafka.sh /etc/kafka/docker/run
RUN chmod 755 /opt/kafka/bin/kafka-broker-api-versions.sh
ENV PATH=/opt/java/bin:$PATH CLASSPATH=/opt/kafka/libs/* CLUSTER_ID=AAAAAAAAAAAAAAAAAAAAAQ
USER appuser
VOLUME /var/lib/kafka/data
EXPOSE 9092
CMD ["sh", "/etc/kafka/docker/run"]
