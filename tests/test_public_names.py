"""What `import wallaroo` brings, and what it leaves out."""

import json
import subprocess
import sys

import wallaroo


def test_importing_wallaroo_does_not_import_spark_or_the_tools_around_it():
    program = (
        "import json, sys, wallaroo; "
        "print(json.dumps([name for name in ('pyspark', 'pyarrow', 'click', 'rich') if name in sys.modules]))"
    )
    finished = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert json.loads(finished.stdout) == []


def test_everything_promised_is_there_in_order():
    assert wallaroo.__all__ == sorted(wallaroo.__all__)
    assert issubclass(wallaroo.WallarooParameterError, wallaroo.WallarooError)
    assert wallaroo.__version__.count(".") == 2
