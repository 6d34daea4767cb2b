"""The files of states: what is read is what was written, whatever the disk did in between."""

from tests.processes import run_python


def test_a_write_that_was_cut_off_does_not_move_what_comes_after_it(tmp_path):
    limited = """
import resource, signal, sys
from pathlib import Path
from wallaroo.engine.stages.state_files import StateFiles
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
files = StateFiles(Path(sys.argv[1]), {})
places = [files.write(b"first")]
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    files.write(b"x" * 2000)
except OSError:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    places += [files.write(b"second"), files.write(b"third")]
print(*(files.read(place, 5).decode() for place in places))
"""
    assert run_python("-c", limited, tmp_path).stdout == "first secon third\n"
