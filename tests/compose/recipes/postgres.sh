# As root: hand the data folder to postgres and become that user. Then make the data if there is none, and serve.
set -eu
if [ "$(id -u)" = 0 ]; then
    install -d -m 700 -o postgres -g postgres "$PGDATA"
    exec setpriv --reuid=postgres --regid=postgres --init-groups sh "$0"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    echo "$POSTGRES_PASSWORD" > /tmp/password
    initdb -D "$PGDATA" -U "$POSTGRES_USER" --encoding=UTF8 --no-locale --auth=scram-sha-256 --pwfile=/tmp/password
    rm /tmp/password
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    echo "CREATE DATABASE \"$POSTGRES_DB\"" | postgres --single -D "$PGDATA" postgres
fi
exec postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/tmp
