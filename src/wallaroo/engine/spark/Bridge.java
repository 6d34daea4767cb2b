package wallaroo;

import io.netty.bootstrap.ChannelInitializerExtension;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.lang.ref.WeakReference;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketImpl;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.CopyOption;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Collections;
import java.util.concurrent.TimeUnit;
import javax.net.SocketFactory;
import py4j.JavaServer;
import py4j.PythonClient;

/**
 * The JVM's end of the bridge to Python: replaces Spark's own gateway, with Unix sockets instead of ports.
 *
 * It is compiled at each start by Janino, which comes with Spark and supports Java 8 without lambdas, generic methods
 * or variable arguments.
 */
public class Bridge {
  /** Serves the socket `jvm` in a folder, calls back through `python`, and exits when standard input is closed. */
  public static void main(String[] arguments) throws Exception {
    Path folder = Paths.get(arguments[0], new String[0]);
    if (arguments[1].equals("guarded")) { Guard.install(); }
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
    String token = input.readLine();
    if (token == null) { Runtime.getRuntime().halt(1); }
    PythonClient python = new PythonClient(
      null, null, 0, InetAddress.getLoopbackAddress(), 30L, TimeUnit.SECONDS,
      new Dialer(folder.resolve("python")), null, true, 0, null);
    Server server = new Server(folder.resolve("jvm"), python, token);
    python.setGateway(server.getGateway());
    python.setJavaServer(server);
    server.start();
    // A line requests a clean exit; end of file without one means that the other process is gone.
    if (input.readLine() == null) { Runtime.getRuntime().halt(1); }
    System.exit(0);
  }

  /** py4j's server on a Unix socket instead of a port. */
  static class Server extends JavaServer {
    private static final long ACCEPT_AGAIN_MILLISECONDS = 50L;
    private final Path path;
    private ServerSocketChannel listener;

    Server(Path path, PythonClient python, String token) {
      super(new Guard(), 0, 0, 0, null, python, token);
      this.path = path;
    }

    public void start(boolean fork) {
      try {
        Path unfinished = path.resolveSibling(path.getFileName() + ".new");
        listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        listener.bind(UnixDomainSocketAddress.of(unfinished));
        // The socket gets its final name once clients can connect.
        Files.move(unfinished, path, new CopyOption[0]);
      } catch (IOException error) {
        throw new RuntimeException("Cannot listen at " + path, error);
      }
      new Thread(this, "wallaroo-bridge").start();
    }

    public void run() {
      getGateway().startup();
      addListener(this);
      while (listener.isOpen()) {
        try {
          processSocket(new UnixSocket(listener.accept()));
        } catch (IOException refused) {
          // The socket is closed, or there are too many open files.
          try { Thread.sleep(ACCEPT_AGAIN_MILLISECONDS); } catch (InterruptedException ignored) { }
        }
      }
      removeListener(this);
    }

    public void shutdown(boolean callbacks) {
      try { listener.close(); } catch (IOException ignored) { }
      super.shutdown(callbacks);
    }
  }

  /** Opens the connections on which the JVM calls Python. */
  static class Dialer extends SocketFactory {
    private final UnixDomainSocketAddress address;

    Dialer(Path path) { address = UnixDomainSocketAddress.of(path); }

    public Socket createSocket(InetAddress host, int port) throws IOException {
      boolean interrupted = Thread.interrupted();
      try {
        while (true) {
          try {
            return new UnixSocket(SocketChannel.open(address));
          } catch (ClosedByInterruptException again) {
            interrupted |= Thread.interrupted();
          }
        }
      } finally {
        if (interrupted) { Thread.currentThread().interrupt(); }
      }
    }

    public Socket createSocket(InetAddress host, int port, InetAddress from, int own) throws IOException {
      return createSocket(host, port);
    }

    public Socket createSocket(String host, int port) throws IOException { return createSocket((InetAddress) null, 0); }

    public Socket createSocket(String host, int port, InetAddress from, int own) throws IOException {
      return createSocket((InetAddress) null, 0);
    }
  }

  /**
   * The part of a socket that py4j needs, over a channel.
   *
   * Spark interrupts threads to stop a query. A socket ignores that, but a channel in blocking mode would be closed
   * while Python still needs it. So the channel is in non-blocking mode, and waits with a selector.
   */
  static class UnixSocket extends Socket {
    private final SocketChannel channel;
    private Selector readable;
    private Selector writable;
    private volatile int timeout = 0;

    UnixSocket(SocketChannel channel) throws IOException {
      super((SocketImpl) null);
      this.channel = channel;
      try {
        readable = Selector.open();
        writable = Selector.open();
        channel.configureBlocking(false);
        channel.register(readable, SelectionKey.OP_READ);
        channel.register(writable, SelectionKey.OP_WRITE);
      } catch (IOException error) {
        close();
        throw error;
      }
    }

    int read(ByteBuffer buffer) throws IOException {
      long begin = System.nanoTime();
      while (true) {
        int count = channel.read(buffer);
        if (count != 0 || !buffer.hasRemaining()) { return count; }
        long left = timeout == 0 ? 0 : timeout - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin);
        if (left < 0 || timeout > 0 && left == 0) { throw new SocketTimeoutException("Read timed out"); }
        await(readable, left);
      }
    }

    void write(ByteBuffer buffer) throws IOException {
      while (buffer.hasRemaining()) {
        if (channel.write(buffer) == 0) { await(writable, 0); }
      }
    }

    private void await(Selector selector, long milliseconds) throws IOException {
      boolean interrupted = Thread.interrupted();
      try {
        if (!channel.isOpen()) { throw new SocketException("Socket closed"); }
        selector.select(milliseconds);
        if (!selector.isOpen()) { throw new SocketException("Socket closed"); }
        selector.selectedKeys().clear();
      } finally {
        // Restore the interrupt status for the caller; it was cleared so that select() waits.
        if (interrupted) { Thread.currentThread().interrupt(); }
      }
    }

    public InputStream getInputStream() { return new Input(this); }

    public OutputStream getOutputStream() { return new Output(this); }

    public void setSoTimeout(int milliseconds) { timeout = milliseconds; }

    public int getSoTimeout() { return timeout; }

    public void setSoLinger(boolean on, int seconds) { }

    public boolean isClosed() { return !channel.isOpen(); }

    public boolean isConnected() { return true; }

    public int getPort() { return 0; }

    public int getLocalPort() { return -1; }

    public void close() throws IOException {
      channel.close();
      if (readable != null) { readable.close(); }
      if (writable != null) { writable.close(); }
    }
  }

  static class Input extends InputStream {
    private final UnixSocket socket;

    Input(UnixSocket socket) { this.socket = socket; }

    public int read() throws IOException {
      byte[] one = new byte[1];
      return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    public int read(byte[] bytes, int offset, int length) throws IOException {
      return socket.read(ByteBuffer.wrap(bytes, offset, length));
    }

    public void close() throws IOException { socket.close(); }
  }

  static class Output extends OutputStream {
    private final UnixSocket socket;

    Output(UnixSocket socket) { this.socket = socket; }

    public void write(int one) throws IOException { write(new byte[] {(byte) one}, 0, 1); }

    public void write(byte[] bytes, int offset, int length) throws IOException {
      socket.write(ByteBuffer.wrap(bytes, offset, length));
    }

    public void close() throws IOException { socket.close(); }
  }

  /**
   * Closes connections of other users to the ports that Spark opens for itself, before a byte is read.
   *
   * Spark requires a secret there, but reads gigabytes in its place. Only Linux tells which user owns a connection.
   */
  public static class Guard extends ChannelInitializerExtension {
    private static final Path[] TABLES = {
      Paths.get("/proc/net/tcp", new String[0]), Paths.get("/proc/net/tcp6", new String[0])
    };
    private static final String ESTABLISHED = "01";

    /** Guards every Netty server of this JVM. Netty itself only loads such an extension from its own class path. */
    static void install() throws Exception {
      String name = "io.netty.bootstrap.ChannelInitializerExtensions";
      Class place = Class.forName(name);
      Class loading = Class.forName(name + "$ServiceLoadingExtensions");
      Constructor maker = loading.getDeclaredConstructor(new Class[] {boolean.class});
      maker.setAccessible(true);
      Object extensions = maker.newInstance(new Object[] {Boolean.TRUE});
      set(loading, extensions, "classLoader", new WeakReference(ServerBootstrap.class.getClassLoader()));
      set(loading, extensions, "extensions", Collections.singletonList(new Guard()));
      set(place, null, "implementation", extensions);
    }

    private static void set(Class place, Object object, String name, Object value) throws Exception {
      Field field = place.getDeclaredField(name);
      field.setAccessible(true);
      field.set(object, value);
    }

    public void postInitializeServerChildChannel(Channel channel) {
      channel.pipeline().addFirst("guard", new UserFilter());
    }

    /** Returns the id of the user who runs this process, or -1 if that is not known. */
    public int ownUser() throws IOException {
      Path self = Paths.get("/proc/self", new String[0]);
      if (!Files.exists(self, new LinkOption[0])) { return -1; }
      return ((Integer) Files.getAttribute(self, "unix:uid", new LinkOption[0])).intValue();
    }

    /** Returns whether a user owns the other end of a local connection; true if the system does not tell. */
    public boolean belongsTo(int user, InetSocketAddress other, InetSocketAddress ours) throws IOException {
      String local = written(other);
      String remote = written(ours);
      boolean known = false;
      boolean found = false;
      for (int table = 0; table < TABLES.length; table++) {
        if (!Files.exists(TABLES[table], new LinkOption[0])) { continue; }
        known = true;
        // Other users can make the tables long: one thread at a time reads them, line by line.
        synchronized (TABLES) {
          BufferedReader lines = Files.newBufferedReader(TABLES[table], StandardCharsets.US_ASCII);
          try {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
              if (line.indexOf(local) < 0 || line.indexOf(remote) < 0) { continue; }
              String[] words = line.trim().split("\\s+");
              // An IPv4 address is the end of its mapped IPv6 address.
              if (words[1].endsWith(local) && words[2].endsWith(remote) && words[3].equals(ESTABLISHED)) {
                if (Integer.parseInt(words[7]) != user) { return false; }
                found = true;
              }
            }
          } finally {
            lines.close();
          }
        }
      }
      return found || !known;
    }

    /** Returns an address in the format of the tables: four-byte numbers in native byte order, and the port. */
    private static String written(InetSocketAddress address) {
      ByteBuffer bytes = ByteBuffer.wrap(address.getAddress().getAddress()).order(ByteOrder.nativeOrder());
      StringBuilder text = new StringBuilder();
      while (bytes.hasRemaining()) { text.append(hexadecimal(bytes.getInt(), 8)); }
      return text.append(':').append(hexadecimal(address.getPort(), 4)).toString();
    }

    private static String hexadecimal(int number, int digits) {
      String text = Integer.toHexString(number).toUpperCase();
      return "00000000".substring(8 - digits + text.length()) + text;
    }
  }

  static class UserFilter extends ChannelInboundHandlerAdapter {
    public void channelActive(ChannelHandlerContext context) throws Exception {
      Channel channel = context.channel();
      Guard guard = new Guard();
      InetSocketAddress other = (InetSocketAddress) channel.remoteAddress();
      if (other != null && guard.belongsTo(guard.ownUser(), other, (InetSocketAddress) channel.localAddress())) {
        context.pipeline().remove(this);
        context.fireChannelActive();
      } else {
        context.close();
      }
    }

    public void exceptionCaught(ChannelHandlerContext context, Throwable error) { context.close(); }
  }
}
