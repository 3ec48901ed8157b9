# One image for every role of the distributed profile: Airflow, Spark master and worker, and
# streaming jobs. The packages and jars are the locked ones, so all roles run the same versions.
FROM python:3.11-slim-bookworm AS base

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/*
ENV PYTHONUNBUFFERED=1 \
    VIRTUAL_ENV=/opt/venv \
    PATH=/opt/venv/bin:$PATH \
    SPARK_HOME=/opt/venv/lib/python3.11/site-packages/pyspark \
    PYSPARK_PYTHON=/opt/venv/bin/python

FROM base AS build

WORKDIR /opt/ballast
COPY requirements.lock ./
COPY tools/__init__.py tools/bootstrap.lock tools/delta-jars.lock tools/s3-jars.lock tools/jars.py tools/
COPY embedded/__init__.py embedded/java.py embedded/
RUN python -m venv /opt/venv \
    && pip install --no-cache-dir --require-hashes --requirement tools/bootstrap.lock \
    && uv pip sync --no-cache --compile-bytecode --require-hashes requirements.lock
# Into Spark's own folder: on a cluster, executors need them before any job has named them.
RUN python -m tools.jars tools/delta-jars.lock "$SPARK_HOME/jars" \
    && python -m tools.jars tools/s3-jars.lock "$SPARK_HOME/jars"

FROM base

RUN useradd --create-home --uid 10001 ballast
COPY --from=build /opt/venv /opt/venv
WORKDIR /opt/ballast
COPY . .
# Compiled loops go where the user who runs them may write: numba uses no other cache.
ENV NUMBA_CACHE_DIR=/var/lib/ballast/numba
RUN uv pip install --offline --no-cache --no-deps --no-build-isolation --editable . \
    && python -c "from solvers.rebalance.compile_kernels import main; main()" \
    && mkdir -p /var/lib/ballast/airflow /var/lib/ballast/jobs \
    && chown -R ballast:ballast /var/lib/ballast
ENV BALLAST_HOME=/var/lib/ballast \
    BALLAST_POLICIES=/opt/ballast/policies \
    AIRFLOW_HOME=/var/lib/ballast/airflow
USER ballast
# Reaps the children of a role's process, and passes signals on to it.
ENTRYPOINT ["tini", "-g", "--"]
CMD ["ballast", "--help"]
