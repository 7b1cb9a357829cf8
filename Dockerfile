FROM python:3.12-slim

ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    DATA_DIR=/data \
    MCP_APPS_PATH=/tools \
    PACKAGES=/packages \
    HOST=0.0.0.0 \
    PORT=8000

WORKDIR /app
COPY requirements.txt .
RUN pip install --disable-pip-version-check -r requirements.txt \
    && useradd --system --uid 10001 --home-dir /app mcp \
    && install -d -o mcp -g mcp -m 0700 /data \
    && install -d -o mcp -g mcp /tools /packages
COPY manage.py LICENSE deploy/entrypoint.sh ./
COPY mcpsite mcpsite
COPY mcp_app mcp_app
COPY docs mcp_app/documents

USER mcp
VOLUME /data /packages
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s CMD \
    ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
# Installs what the apps in /tools need, if that folder has a requirements.txt.
ENTRYPOINT ["sh", "/app/entrypoint.sh"]
CMD ["python", "-m", "mcpsite.web"]
