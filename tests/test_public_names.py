"""What `import wallaroo` brings, and what it leaves out."""

import json
import subprocess
import sys

import wallaroo


def test_importing_wallaroo_does_not_import_spark_or_the_tools_around_it():
    left_out = ("pyspark", "pyarrow", "click", "rich", "confluent_kafka")
    program = f"import json, sys, wallaroo; print(json.dumps([name for name in {left_out} if name in sys.modules]))"
    finished = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert json.loads(finished.stdout) == []


def test_everything_promised_is_there_in_order():
    assert wallaroo.__all__ == sorted(wallaroo.__all__)
    assert issubclass(wallaroo.WallarooParameterError, wallaroo.WallarooError)
    assert wallaroo.__version__.count(".") == 2
