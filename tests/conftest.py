import signal

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "chefs",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("chefs")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of a job in the background; tests interrupt, and so do users
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def compiled():
    """Compile first: else a command would say that it does."""
    import numpy as np

    from chefs import ChefsProcess
    from chefs.network.estimator import have_compiled

    ChefsProcess().sample(np.random.default_rng(0), 1, size=1)
    have_compiled()


@pytest.fixture
def run(compiled, capsys, tmp_path, monkeypatch):
    """Run `chefs` in an empty folder; exit code, standard output, standard error."""
    from tests.commands import left

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments):
        capsys.readouterr()
        code = left(*arguments)
        return code, *capsys.readouterr()

    return call


def pytest_configure(config):
    """Laws marked `evidence` are asked by `make evidence`, or with `-m evidence`; the suite leaves them out."""
    config.addinivalue_line("markers", "evidence: a law that `make evidence` asks, and the suite does not")
    config.option.markexpr = config.option.markexpr or "not evidence"
