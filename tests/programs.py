"""Applications of a test's own parts, for real processes, which build their applications from programs."""

import sys
import uuid
from pathlib import Path

import cloudpickle

from wallaroo.program import Program
from wallaroo.topology.model import Application, Pipeline

FOLDER = str(Path(__file__).parent / "pickled")


def program_for(application, folder):
    """Return a program that gives this application in every process."""
    if FOLDER not in sys.path:
        sys.path.append(FOLDER)
    file = Path(folder) / f"{uuid.uuid4().hex}.application"
    file.write_bytes(cloudpickle.dumps(application))
    return Program("pickled_application", "application_setup", (str(file),))


def instructions_for(sources, folder):
    """Return how a process builds an application with these sources, by the names of their pipelines."""
    pipelines = tuple(Pipeline(name, source, (), ()) for name, source in sources.items())
    application = Application("test", pipelines)
    return program_for(application, folder).instructions(application)
