"""For all tests: a JVM without its second compiler, and a Ctrl-C that works."""

import os
import signal

# A JVM that lives for seconds does not optimise what it will not run again; it halves the work.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
# Whoever runs the tests in the background of a script has it ignored, and all their processes would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
