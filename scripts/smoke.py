"""What a minimal install must do, in the environment that runs this, with no extra in it: see `smoke`."""

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

EXTRAS = ("matplotlib", "torch", "arviz", "xarray", "zarr", "onnx", "pyarrow", "pandas", "dask", "pytest")


def chefs_command(*arguments: str, code: int = 0) -> subprocess.CompletedProcess:
    """Run the command that was installed."""
    done = subprocess.run([sys.argv[1], *arguments], capture_output=True, text=True)
    assert done.returncode == code, (arguments, done)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def main() -> None:
    """Import, draw, score, fit, ask, and be told what is missing."""
    assert not [name for name in EXTRAS if importlib.util.find_spec(name)]
    version = importlib.metadata.version("chefs")
    assert chefs_command("--version").stdout == f"chefs {version}\n"
    begin = time.monotonic()
    first = chefs_command("prior", "--draws", "100", "--json")
    assert "compiling" in first.stderr, first.stderr
    between = time.monotonic()
    again = chefs_command("prior", "--draws", "100", "--json")
    print(f"chefs prior: first {between - begin:.1f} s, again {time.monotonic() - between:.1f} s")
    assert json.loads(first.stdout) == json.loads(again.stdout)

    import numpy as np

    import chefs

    assert Path(chefs.__file__).with_name("py.typed").exists()
    prior = chefs.ChefsProcess(1.0, 2.0, 1.0)
    dag = prior.sample(np.random.default_rng(0), observed=3)
    assert np.isfinite(prior.log_prob(dag))
    x = np.random.default_rng(0).normal(size=(30, 2))
    model = chefs.SigmoidNetwork(draws=3, warmup=2, chains=1, start="empty", random_state=0, n_jobs=1).fit(x)
    assert model.sample(4).shape == (4, 2)
    assert np.isfinite(model.score(x))

    chefs_command("fit", "geyser", "--out", "run", "--draws", "5", "--warmup", "5", "--start", "empty")
    assert "<html" in Path("run/report.html").read_text(encoding="utf-8")
    chefs_command("fantasy", "run", "-n", "10", "-o", "fantasy.csv")
    assert len(Path("fantasy.csv").read_text().splitlines()) == 11
    assert np.isfinite(json.loads(chefs_command("score", "run", "geyser", "--json").stdout)["mean"])
    for arguments, extra in (
        (("prior", "--plot", "new.png"), "plots"),
        (("fantasy", "run", "-o", "new.parquet"), "parquet"),
        (("search", "--out", "new"), "chefs["),
    ):
        done = chefs_command(*arguments, code=1)
        assert extra in done.stderr, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
    assert not list(Path().glob("new*"))
    assert not set(EXTRAS) & set(sys.modules)


if __name__ == "__main__":
    main()
