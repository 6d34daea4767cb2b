"""Local checkpoint files without a process for each: Hadoop starts a `chmod` for every file it writes.

That was 45 of the milliseconds of a batch. The class below sets permissions inside the JVM. It also forces each file
to the disk before it gets its name, so that a power failure leaves no empty file in its place. It is compiled when
Spark starts, by the compiler that Spark carries. Only for runs in one JVM: a cluster's executors do not have the class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA = """
package wallaroo;

import java.io.File;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends LocalFileSystem {
  public LocalFiles() { super(new Raw()); }

  public void initialize(java.net.URI name, org.apache.hadoop.conf.Configuration conf) throws IOException {
    super.initialize(name, conf);
    setWriteChecksum(false);
  }

  public void copyFromLocalFile(boolean move, Path from, Path to) throws IOException {
    super.copyFromLocalFile(move, from, to);
    force(pathToFile(to));
  }

  static void force(File file) throws IOException {
    FileChannel channel = FileChannel.open(file.toPath(), new OpenOption[] {StandardOpenOption.WRITE});
    try { channel.force(false); } finally { channel.close(); }
  }

  public static class Raw extends RawLocalFileSystem {
    public boolean rename(Path from, Path to) throws IOException {
      File file = pathToFile(from);
      if (file.isFile()) { force(file); }
      return super.rename(from, to);
    }

    public void setPermission(Path path, FsPermission permission) throws IOException {
      Set set = EnumSet.noneOf(PosixFilePermission.class);
      PosixFilePermission[] all = PosixFilePermission.values();
      for (int bit = 0; bit < 9; bit++) {
        if ((permission.toShort() & (0400 >> bit)) != 0) { set.add(all[bit]); }
      }
      Files.setPosixFilePermissions(pathToFile(path).toPath(), set);
    }
  }
}
"""


def quicken_local_files(session: SparkSession) -> None:
    """Have Spark write local files without starting processes."""
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - PySpark's only way to the JVM
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_JAVA)
    hadoop = session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    hadoop.setClassLoader(compiler.getClassLoader())
    hadoop.set("fs.file.impl", "wallaroo.LocalFiles")
