"""Public paths of classes in settings, and their former paths for one more release."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.checks import run_checks
from django.utils.module_loading import import_string
from kombu.utils.imports import symbol_by_name

from mcp_app.auth import public_paths
from mcp_app.auth.public_paths import FORMER, SETTINGS


@pytest.mark.parametrize(("former", "path"), FORMER.items(), ids=FORMER.values())
def test_former_path_names_the_same_class_and_warns_once(former: str, path: str) -> None:
    public_paths._warn.cache_clear()
    load = symbol_by_name if ":" in path else import_string
    found = load(path)
    with pytest.warns(DeprecationWarning, match=f"^{former} is {path} now"):
        assert load(former) is found
    # A second warning would raise an error here.
    assert load(former) is found


def test_unknown_name_in_module_with_former_names_raises_import_error() -> None:
    with pytest.raises(ImportError, match="Nothing"):
        import_string("mcp_app.auth.time_zone.Nothing")


def paths_named(found: list[Any]) -> list[str]:
    return [str(each.msg) for each in found if each.id == "mcp_app.W044"]


@pytest.mark.filterwarnings("ignore:.* is mcp_app.integrations:DeprecationWarning")
def test_check_reports_each_former_path_in_settings(settings: Any) -> None:
    assert paths_named(run_checks()) == []
    by_setting = {
        "CELERY_BROKER_TRANSPORT": "mcp_app.execution.background.broker:Transport",
        "MIDDLEWARE": [*settings.MIDDLEWARE, "mcp_app.auth.time_zone.TimeZoneMiddleware"],
        "AUTHENTICATION_BACKENDS": [
            "mcp_app.oauth.second_factor.gate.Gate",
            *settings.AUTHENTICATION_BACKENDS,
        ],
        "SOCIALACCOUNT_ADAPTER": "mcp_app.oauth.company.views.Adapter",
        "MFA_ADAPTER": "mcp_app.oauth.second_factor.library.Adapter",
    }
    assert set(by_setting) == set(SETTINGS)
    for name, value in by_setting.items():
        setattr(settings, name, value)
    found = paths_named(run_checks())
    assert [text.partition(" ")[0] for text in found] == list(SETTINGS)


def test_former_path_still_enables_its_part(settings: Any) -> None:
    for former, path in FORMER.items():
        assert public_paths.names(former, path)
        assert public_paths.names(["other", former], path)
        assert not public_paths.names(["other"], path)
        assert not public_paths.names(None, path)
