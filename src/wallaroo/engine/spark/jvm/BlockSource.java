package wallaroo;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.PartitionOffset;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeMode;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead.RecordStatus;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The source of an application's query: blocks of messages, in the order of the sequence from the ingress.
 *
 * An offset is the number of a block. A reader has a connection to the ingress, sends its number, the number of readers
 * and the first block, and passes on what it receives: a row for each block, with the block's record. Small blocks that
 * are available together share a row, because each row has a cost. A row is followed by an empty one unless another one
 * is available, because Spark requests the next row before it forwards the last one. The reader blocks while there is
 * nothing to read; the end of an epoch is a row, too.
 */
public class BlockSource implements TableProvider {
  static final StructType SCHEMA =
      new StructType().add("block", DataTypes.LongType).add("content", DataTypes.BinaryType);

  public StructType inferSchema(CaseInsensitiveStringMap options) { return SCHEMA; }

  public Table getTable(StructType schema, Transform[] partitioning, Map properties) { return new Blocks(); }

  static class Blocks implements Table, SupportsRead {
    public String name() { return "blocks"; }

    public StructType schema() { return SCHEMA; }

    public Set capabilities() { return EnumSet.of(TableCapability.MICRO_BATCH_READ); }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) { return new BlockScan(options); }
  }

  static class BlockScan implements ScanBuilder, Scan {
    private final CaseInsensitiveStringMap options;

    BlockScan(CaseInsensitiveStringMap options) { this.options = options; }

    public Scan build() { return this; }

    public StructType readSchema() { return SCHEMA; }

    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      return new BlockStream(
          options.get("address"), options.get("token"), options.get("attempt"), options.getInt("readers", 1),
          options.getLong("start", 0L));
    }
  }

  static class Number extends Offset implements PartitionOffset {
    final long block;

    Number(long block) { this.block = block; }

    public String json() { return Long.toString(block); }
  }

  static class BlockStream implements MicroBatchStream, SupportsRealTimeMode {
    private final String address;
    private final String token;
    private final String attempt;
    private final int readers;
    private final long start;

    BlockStream(String address, String token, String attempt, int readers, long start) {
      this.address = address;
      this.token = token;
      this.attempt = attempt;
      this.readers = readers;
      this.start = start;
    }

    public Offset initialOffset() { return new Number(start); }

    public Offset latestOffset() { return new Number(start); }

    public Offset deserializeOffset(String json) { return new Number(Long.parseLong(json)); }

    public void commit(Offset end) { }

    public void stop() { }

    public InputPartition[] planInputPartitions(Offset from, Offset to) { throw new UnsupportedOperationException(); }

    public InputPartition[] planInputPartitions(Offset from) {
      InputPartition[] all = new InputPartition[readers];
      for (int i = 0; i < readers; i++) {
        all[i] = new Share(address, token, attempt, i, readers, Long.parseLong(from.json()));
      }
      return all;
    }

    /** Spark asks for this at the end of its batch, which never comes; what is committed is decided elsewhere. */
    public Offset mergeOffsets(PartitionOffset[] offsets) {
      long least = Long.MAX_VALUE;
      for (int i = 0; i < offsets.length; i++) { least = Math.min(least, ((Number) offsets[i]).block); }
      return new Number(least);
    }

    public PartitionReaderFactory createReaderFactory() { return new Readers(); }
  }

  static class Share implements InputPartition {
    final String address;
    final String token;
    final String attempt;
    final int reader;
    final int readers;
    final long start;

    Share(String address, String token, String attempt, int reader, int readers, long start) {
      this.address = address;
      this.token = token;
      this.attempt = attempt;
      this.reader = reader;
      this.readers = readers;
      this.start = start;
    }
  }

  /** The ingress does not answer, or has closed the connection; the driver retries failures of this class. */
  public static class IngressLost extends RuntimeException {
    public IngressLost(String text, Throwable cause) { super(text, cause); }
  }

  static class Readers implements PartitionReaderFactory {
    public PartitionReader createReader(InputPartition share) { return new BlockReader((Share) share); }
  }

  /** Reads the frames of the ingress: the number of a block, the length of its content, its size, and the content. */
  static class BlockReader implements SupportsRealTimeRead {
    private static final byte[] NOTHING = new byte[0];
    private static final int HEAD_BYTES = 16;
    /** The maximum number of message bytes of blocks that share a row, and the maximum number of these blocks. */
    private static final long TOGETHER_BYTES = 65536L;
    private static final int TOGETHER_BLOCKS = 256;
    private final SocketChannel channel;
    private final DataInputStream input;
    private long position;
    private long block;
    private byte[] content;
    private boolean flush;
    private boolean ahead;
    private long nextBlock;
    private long nextSize;
    private int nextLength;

    BlockReader(Share share) {
      position = share.start;
      try {
        channel = SocketChannel.open(address(share.address));
        String hello = "{\"op\": \"blocks\", \"token\": \"" + share.token + "\", \"attempt\": \"" + share.attempt
            + "\", \"reader\": " + share.reader
            + ", \"readers\": " + share.readers + ", \"start\": " + share.start + "}\n";
        ByteBuffer bytes = ByteBuffer.wrap(hello.getBytes(StandardCharsets.UTF_8));
        while (bytes.hasRemaining()) { channel.write(bytes); }
        input = new DataInputStream(new java.io.BufferedInputStream(Channels.newInputStream(channel), 1 << 16));
      } catch (IOException error) {
        throw new IngressLost("The process that accepts connections does not answer: " + error, error);
      }
    }

    private static SocketAddress address(String text) {
      if (text.startsWith("/")) { return UnixDomainSocketAddress.of(text); }
      int colon = text.lastIndexOf(':');
      return new InetSocketAddress(text.substring(0, colon), Integer.parseInt(text.substring(colon + 1)));
    }

    public PartitionOffset getOffset() { return new Number(position); }

    public RecordStatus nextWithTimeout(Long startMs, Long timeoutMs) {
      if (flush) {
        flush = false;
        block = -1L;
        content = NOTHING;
        return RecordStatus.newStatusWithoutArrivalTime(true);
      }
      try {
        readHead();
        ahead = false;
        position = block = nextBlock;
        if (nextLength < 0) {
          // The end of an epoch is a frame with the first block of the next epoch and a negative length.
          block = -2L - block;
          content = NOTHING;
        } else {
          readContents();
        }
        // Spark requests the next row before it forwards this one: unless one is available, it gets an empty one.
        flush = !ahead && input.available() < HEAD_BYTES;
      } catch (IOException error) {
        throw new IngressLost("The process that accepts connections has closed the connection: " + error, error);
      }
      return RecordStatus.newStatusWithoutArrivalTime(true);
    }

    private void readHead() throws IOException {
      if (ahead) { return; }
      nextBlock = input.readLong();
      nextLength = input.readInt();
      nextSize = input.readInt() & 0xffffffffL;
      ahead = true;
    }

    /** Reads the content of a block, and of further available ones as long as all of them are small. */
    private void readContents() throws IOException {
      ByteArrayOutputStream contents = new ByteArrayOutputStream(Math.max(nextLength, 64));
      long size = 0L;
      for (int blocks = 1; ; blocks++) {
        byte[] bytes = input.readNBytes(nextLength);
        if (bytes.length < nextLength) { throw new EOFException(); }
        contents.write(bytes, 0, bytes.length);
        size += nextSize;
        ahead = false;
        if (blocks == TOGETHER_BLOCKS || size >= TOGETHER_BYTES || input.available() < HEAD_BYTES) { break; }
        readHead();
        if (nextLength < 0 || size + nextSize > TOGETHER_BYTES) { break; }
      }
      content = contents.toByteArray();
    }

    public RecordStatus nextWithTimeout(Long timeoutMs) { return nextWithTimeout(Long.valueOf(0L), timeoutMs); }

    public boolean next() { throw new UnsupportedOperationException(); }

    public Object get() { return new GenericInternalRow(new Object[] {Long.valueOf(block), content}); }

    public void close() throws IOException { channel.close(); }
  }
}
