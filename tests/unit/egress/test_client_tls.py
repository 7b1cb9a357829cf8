"""Fetching over TLS: connect by address, verify certificate and server name by host name (S13)."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mcp_app.egress import EgressFailed, EgressRefused, Request, exchange, fetch
from tests.unit.egress.sites import Heard, Names, page, redirect, response, serve, serve_kept

HOME = Names(site_test=[["127.0.0.1"]], other_test=[["127.0.0.1"]])


def certificate_for(name: str, folder) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a server context with a self-signed certificate for ``name`` and a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), 1, now, now + timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    chain, secret = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain, secret)
    return server, ssl.create_default_context(cafile=str(chain))


async def test_https_verifies_by_name_and_connects_by_address(tmp_path) -> None:
    server, trust = certificate_for("site.test", tmp_path)
    asked: list[str | None] = []
    server.sni_callback = lambda _socket, name, _context: asked.append(name)
    async with serve(page(b"safe"), tls=server) as site:
        fetched = await fetch(f"https://site.test:{site.port}/", site.policy(), resolve=HOME, tls=trust)
    assert (fetched.body, asked, site.header("host")) == (b"safe", ["site.test"], f"site.test:{site.port}")


async def test_https_refuses_certificate_for_other_name_or_unknown_issuer(tmp_path) -> None:
    server, trust = certificate_for("site.test", tmp_path)
    async with serve(page(), tls=server) as site:
        for host, context in (("other.test", trust), ("site.test", None)):
            with pytest.raises(EgressFailed, match="secure connection"):
                await fetch(f"https://{host}:{site.port}/", site.policy(), resolve=HOME, tls=context)
    assert site.requests == []


async def test_https_redirect_to_http_is_refused(tmp_path) -> None:
    server, trust = certificate_for("site.test", tmp_path)
    async with serve(page()) as plain, serve(redirect(f"http://site.test:{plain.port}/"), tls=server) as site:
        policy = site.policy(ports=frozenset({site.port, plain.port}))
        with pytest.raises(EgressRefused, match="https to http"):
            await fetch(f"https://site.test:{site.port}/", policy, resolve=HOME, tls=trust)
    assert plain.connections == 0


async def test_secured_connection_is_kept_and_closed_when_the_server_closes_it(tmp_path) -> None:
    server, trust = certificate_for("site.test", tmp_path)
    ended = asyncio.Event()

    async def handle(request: Heard, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"x" * 300_000))
        if len(site.requests) == 2:
            writer.close()
            await writer.wait_closed()
            ended.set()

    async with serve_kept(handle, tls=server) as site:
        for number in range(3):
            request = Request("POST", f"https://site.test:{site.port}/", (), b"y" * 300_000)
            async with exchange(request, site.policy(), resolve=HOME, tls=trust) as answer:
                assert len(await answer.read()) == 300_000
            if number == 1:
                await asyncio.wait_for(ended.wait(), 2)
    assert [heard.connection for heard in site.requests] == [0, 0, 1]
