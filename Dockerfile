FROM python:3.11-slim
WORKDIR /app
COPY requirements.lock .
RUN pip install --no-cache-dir --disable-pip-version-check --require-hashes --requirement requirements.lock
COPY . .
RUN useradd --system --uid 10001 --no-create-home fencepost
USER fencepost
ENTRYPOINT ["python", "-m", "cli"]
