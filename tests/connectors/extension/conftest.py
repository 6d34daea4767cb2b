"""The fixtures of the ingress."""

from ...ingress.conftest import make_ingress  # noqa: F401, TID252 - tests are not installed.
