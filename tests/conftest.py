"""For all tests: a JVM that lives for seconds does not optimise what it will not run again; it halves the work."""

import os

os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
