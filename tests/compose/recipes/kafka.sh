# Write the settings and format the data folder, unless that was done, then serve.
set -eu
touch /opt/kafka/config/server.properties
told=$(java kafka.docker.KafkaDockerWrapper setup --default-configs-dir /etc/kafka/docker \
    --mounted-configs-dir /mnt/shared/config --final-configs-dir /opt/kafka/config 2>&1) || {
    case "$told" in *"already formatted"*) ;; *) echo "$told"; exit 1 ;; esac
}
exec java ${KAFKA_HEAP_OPTS:-} -Dlog4j2.level=WARN kafka.Kafka /opt/kafka/config/server.properties
