FROM python:3.12-slim

ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    DATA_DIR=/data \
    HOST=0.0.0.0 \
    PORT=8000

WORKDIR /app
COPY requirements.txt .
RUN pip install --disable-pip-version-check -r requirements.txt \
    && useradd --system --uid 10001 --home-dir /app mcp \
    && install -d -o mcp -g mcp -m 0700 /data
COPY manage.py LICENSE ./
COPY mcpsite mcpsite
COPY mcp_app mcp_app

USER mcp
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s CMD \
    ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
CMD ["python", "-m", "mcpsite.web"]
