package wallaroo;

import java.util.ArrayDeque;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.scheduler.MapStatus;
import org.apache.spark.shuffle.BaseShuffleHandle;
import org.apache.spark.shuffle.ShuffleHandle;
import org.apache.spark.shuffle.ShuffleReadMetricsReporter;
import org.apache.spark.shuffle.ShuffleReader;
import org.apache.spark.shuffle.ShuffleWriteMetricsReporter;
import org.apache.spark.shuffle.ShuffleWriter;
import org.apache.spark.shuffle.streaming.StreamingShuffleManager;
import org.apache.spark.storage.BlockManagerId;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import scala.Option;
import scala.Product2;
import scala.Some;
import scala.Tuple2;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * The streaming shuffle for tasks that all run in one JVM: rows go from task to task through queues in memory.
 *
 * Spark's own streaming shuffle uses TCP even on one machine: it listens on every interface, authenticates no one, and
 * polls a thousand times a second for data to send.
 */
public class OneProcessShuffle extends StreamingShuffleManager {
  private static final ConcurrentHashMap EXCHANGES = new ConcurrentHashMap();
  private static final long LOOK_UP_MS = 100L;
  /** How many bytes may wait in a lane; its reader takes rows out whenever it is not computing. */
  private static final long LANE_BYTES = 8L << 20;

  public ShuffleHandle registerShuffle(int shuffleId, ShuffleDependency dependency) {
    int writers = dependency.rdd().getNumPartitions();
    int readers = dependency.partitioner().numPartitions();
    EXCHANGES.put(Integer.valueOf(shuffleId), new Exchange(writers, readers));
    return super.registerShuffle(shuffleId, dependency);
  }

  public boolean unregisterShuffle(int shuffleId) {
    EXCHANGES.remove(Integer.valueOf(shuffleId));
    return true;
  }

  public ShuffleWriter getWriter(
      ShuffleHandle handle, long mapId, TaskContext context, ShuffleWriteMetricsReporter metrics) {
    return new Writer((BaseShuffleHandle) handle, mapId, context);
  }

  public ShuffleReader getReader(
      ShuffleHandle handle, int startMapIndex, int endMapIndex, int startPartition, int endPartition,
      TaskContext context, ShuffleReadMetricsReporter metrics) {
    return new Reader(exchange(handle).lanes[startPartition], context);
  }

  private static Exchange exchange(ShuffleHandle handle) {
    return (Exchange) EXCHANGES.get(Integer.valueOf(handle.shuffleId()));
  }

  /** All lanes of one shuffle. */
  static class Exchange {
    final Lane[] lanes;

    Exchange(int writers, int readers) {
      lanes = new Lane[readers];
      for (int i = 0; i < readers; i++) { lanes[i] = new Lane(writers); }
    }
  }

  /** The queue of rows for one reader, from all writers. */
  static class Lane {
    private final ArrayDeque rows = new ArrayDeque();
    private int writing;
    private long bytes;

    Lane(int writers) { writing = writers; }

    synchronized void put(UnsafeRow row, TaskContext context) {
      while (bytes > LANE_BYTES) { waitFor(context); }
      rows.add(row);
      bytes += row.getSizeInBytes();
      notifyAll();
    }

    synchronized void end() {
      writing--;
      notifyAll();
    }

    private void waitFor(TaskContext context) {
      if (context.isInterrupted()) { throw new TaskKilledException(); }
      try {
        wait(LOOK_UP_MS);
      } catch (InterruptedException interrupted) {
        throw new TaskKilledException();
      }
    }

    synchronized boolean isEmpty() { return rows.isEmpty(); }

    /** Returns the next row, null at the end. */
    synchronized UnsafeRow take(TaskContext context) {
      while (rows.isEmpty() && writing > 0) { waitFor(context); }
      UnsafeRow row = (UnsafeRow) rows.poll();
      if (row != null) {
        bytes -= row.getSizeInBytes();
        notifyAll();
      }
      return row;
    }
  }

  static class Writer extends ShuffleWriter {
    /** A placeholder: nothing is fetched from there. */
    private static final BlockManagerId HERE = BlockManagerId.apply("driver", "127.0.0.1", 1, Option.empty());
    private final ShuffleDependency dependency;
    private final Lane[] lanes;
    private final long mapId;
    private final TaskContext context;

    Writer(BaseShuffleHandle handle, long mapId, TaskContext context) {
      this.dependency = handle.dependency();
      this.lanes = exchange(handle).lanes;
      this.mapId = mapId;
      this.context = context;
    }

    public void write(Iterator records) {
      while (records.hasNext()) {
        Product2 record = (Product2) records.next();
        // Spark reuses the row object for the next row.
        int lane = dependency.partitioner().getPartition(record._1());
        lanes[lane].put(((UnsafeRow) record._2()).copy(), context);
      }
      for (int i = 0; i < lanes.length; i++) { lanes[i].end(); }
    }

    public Option stop(boolean success) {
      return new Some(MapStatus.apply(HERE, getPartitionLengths(), mapId, 0L));
    }

    public long[] getPartitionLengths() { return new long[lanes.length]; }
  }

  static class Reader implements ShuffleReader {
    private final Lane lane;
    private final TaskContext context;

    Reader(Lane lane, TaskContext context) {
      this.lane = lane;
      this.context = context;
    }

    public Iterator read() { return new Rows(lane, context); }
  }

  /**
   * The rows of one reader. Spark requests the next row before it forwards the last one to Python. So while none is
   * available, it gets an empty one again: the first row of every writer is one, with the number -1.
   */
  static class Rows extends AbstractIterator {
    private static final int NUMBER = 1;
    private final Lane lane;
    private final TaskContext context;
    private UnsafeRow ahead;
    private UnsafeRow empty;
    private boolean passedOn = true;

    Rows(Lane lane, TaskContext context) {
      this.lane = lane;
      this.context = context;
    }

    public boolean hasNext() {
      if (ahead == null) { ahead = passedOn || !lane.isEmpty() ? lane.take(context) : empty; }
      return ahead != null;
    }

    public Object next() {
      hasNext();
      UnsafeRow row = ahead;
      ahead = null;
      passedOn = row.getLong(NUMBER) == -1L;
      if (passedOn) { empty = row; }
      return new Tuple2(Integer.valueOf(0), row);
    }
  }
}
