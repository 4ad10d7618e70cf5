# One image for one node. It starts only with keys (the address it binds is not loopback); see docker-compose.yml.
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY server server
COPY protocol protocol
# The environment gets no pip of its own: what runs needs none.
RUN python -m venv --without-pip /opt/antiphon \
    && pip --python /opt/antiphon/bin/python install --no-cache-dir --disable-pip-version-check \
        --constraint requirements.lock .

FROM python:3.11-slim
RUN useradd --system --user-group --uid 10001 --home-dir /var/lib/antiphon --shell /usr/sbin/nologin antiphon \
    && install --directory --owner=antiphon --group=antiphon --mode=0700 /var/lib/antiphon \
    && install --directory /etc/antiphon
COPY --from=build /opt/antiphon /opt/antiphon
COPY deploy/healthcheck.py /opt/antiphon/healthcheck.py
ENV PATH=/opt/antiphon/bin:$PATH PYTHONUNBUFFERED=1 ANTIPHON_DATA_DIR=/var/lib/antiphon
# `antiphon.toml` and `scripts/` are looked for here: mount a folder over it.
WORKDIR /etc/antiphon
USER 10001:10001
EXPOSE 8787
STOPSIGNAL SIGTERM
# Whether the process lives. Whether it wants work is /ready: an orchestrator that kills what is unhealthy must not
# kill every node because Redis is away.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "/opt/antiphon/healthcheck.py", "/health"]
ENTRYPOINT ["antiphon"]
CMD ["serve", "--host", "0.0.0.0"]
