import java.io.BufferedWriter;
import java.io.FileWriter;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * Counts the visits of each page. It is a plain Flink job that knows nothing of Ballast.
 *
 * <p>Arguments: name of the job, number of visits, visits per second, microseconds that one visit
 * takes, bytes of state per page, subtasks of the counting, folder of the log of counts.
 *
 * <p>Visits arrive by the clock: the ones that came and were not read wait, and the source reports
 * them as pendingRecords. The page of a visit is a function of its number, so the right counts are
 * known. A visit takes its time by waiting, as for an answer from elsewhere, so that more subtasks
 * do more even on a busy machine.
 */
public final class VisitCount {
  private static final int PAGES = 1000;

  private VisitCount() {}

  /** The page of a visit; pages with low numbers are visited more often. */
  static int pageOf(long visit) {
    long mixed = (visit + 1) * 0x9E3779B97F4A7C15L;
    mixed = (mixed ^ (mixed >>> 30)) * 0xBF58476D1CE4E5B9L;
    mixed = (mixed ^ (mixed >>> 27)) * 0x94D049BB133111EBL;
    double uniform = ((mixed ^ (mixed >>> 31)) >>> 11) * 0x1.0p-53;
    return (int) (PAGES * Math.pow(uniform, 1.3));
  }

  /** Counts by page, with a line in a log for each visit: page, count, number of the visit. */
  static final class Counter extends KeyedProcessFunction<Integer, Long, Long> {
    private final long nanos;
    private final int stateBytes;
    private final String folder;
    private transient ValueState<Long> count;
    private transient ValueState<byte[]> padding;
    private transient PrintWriter log;

    Counter(long nanos, int stateBytes, String folder) {
      this.nanos = nanos;
      this.stateBytes = stateBytes;
      this.folder = folder;
    }

    @Override
    public void open(OpenContext context) throws Exception {
      count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
      padding =
          getRuntimeContext().getState(new ValueStateDescriptor<>("padding", byte[].class));
      String name = System.currentTimeMillis() + "-" + UUID.randomUUID() + ".log";
      log = new PrintWriter(new BufferedWriter(new FileWriter(folder + "/" + name)), true);
    }

    @Override
    public void processElement(Long visit, Context context, Collector<Long> out)
        throws Exception {
      long until = System.nanoTime() + nanos;
      for (long left = nanos; left > 0; left = until - System.nanoTime()) {
        LockSupport.parkNanos(left);
      }
      Long before = count.value();
      long now = before == null ? 1 : before + 1;
      count.update(now);
      if (before == null && stateBytes > 0) {
        byte[] bytes = new byte[stateBytes];
        new Random(context.getCurrentKey()).nextBytes(bytes);
        padding.update(bytes);
      }
      log.println(context.getCurrentKey() + " " + now + " " + visit);
      out.collect(now);
    }

    @Override
    public void close() {
      if (log != null) {
        log.close();
      }
    }
  }

  /** The visits that are not read yet, and when the first one came. */
  static final class Visits implements SourceSplit {
    final long next;
    final long startMs;

    Visits(long next, long startMs) {
      this.next = next;
      this.startMs = startMs;
    }

    @Override
    public String splitId() {
      return "visits";
    }
  }

  /** Visits that arrive at a steady rate, read by one subtask. */
  static final class VisitSource implements Source<Long, Visits, Boolean> {
    private final long total;
    private final double perSecond;

    VisitSource(long total, double perSecond) {
      this.total = total;
      this.perSecond = perSecond;
    }

    @Override
    public Boundedness getBoundedness() {
      return Boundedness.BOUNDED;
    }

    @Override
    public SourceReader<Long, Visits> createReader(SourceReaderContext context) {
      return new VisitReader(context, total, perSecond);
    }

    @Override
    public SplitEnumerator<Visits, Boolean> createEnumerator(
        SplitEnumeratorContext<Visits> context) {
      return new Giver(context, new Visits(0, System.currentTimeMillis()));
    }

    @Override
    public SplitEnumerator<Visits, Boolean> restoreEnumerator(
        SplitEnumeratorContext<Visits> context, Boolean isGiven) {
      return new Giver(context, isGiven ? null : new Visits(0, System.currentTimeMillis()));
    }

    @Override
    public SimpleVersionedSerializer<Visits> getSplitSerializer() {
      return new VisitsSerializer();
    }

    @Override
    public SimpleVersionedSerializer<Boolean> getEnumeratorCheckpointSerializer() {
      return new FlagSerializer();
    }
  }

  /** Gives the visits to the first reader. */
  static final class Giver implements SplitEnumerator<Visits, Boolean> {
    private final SplitEnumeratorContext<Visits> context;
    private Visits left;

    Giver(SplitEnumeratorContext<Visits> context, Visits left) {
      this.context = context;
      this.left = left;
    }

    @Override
    public void start() {}

    @Override
    public void handleSplitRequest(int subtask, String host) {}

    @Override
    public void addSplitsBack(List<Visits> splits, int subtask) {
      for (Visits split : splits) {
        left = split;
      }
      if (context.registeredReaders().containsKey(subtask)) {
        addReader(subtask);
      }
    }

    @Override
    public void addReader(int subtask) {
      if (left != null) {
        Visits given = left;
        left = null;
        context.assignSplit(given, subtask);
      }
    }

    @Override
    public Boolean snapshotState(long checkpoint) {
      return left == null;
    }

    @Override
    public void close() {}
  }

  /** Reads the visits that have come. */
  static final class VisitReader implements SourceReader<Long, Visits> {
    private static final long LOOK_MS = 5;
    private final long total;
    private final double perSecond;
    private volatile long next = -1;
    private long startMs;
    private CompletableFuture<Void> given = new CompletableFuture<>();

    VisitReader(SourceReaderContext context, long total, double perSecond) {
      this.total = total;
      this.perSecond = perSecond;
      context.metricGroup().setPendingRecordsGauge(this::waiting);
    }

    private long waiting() {
      if (next < 0) {
        return 0;
      }
      double elapsed = (System.currentTimeMillis() - startMs) / 1000.0;
      return Math.max(0, Math.min(total, (long) (elapsed * perSecond)) - next);
    }

    @Override
    public void start() {}

    @Override
    public InputStatus pollNext(ReaderOutput<Long> output) {
      if (next >= total) {
        return InputStatus.END_OF_INPUT;
      }
      if (waiting() == 0) {
        return InputStatus.NOTHING_AVAILABLE;
      }
      output.collect(next);
      next++;
      return InputStatus.MORE_AVAILABLE;
    }

    @Override
    public List<Visits> snapshotState(long checkpoint) {
      return next < 0 ? List.of() : List.of(new Visits(next, startMs));
    }

    @Override
    public CompletableFuture<Void> isAvailable() {
      if (next < 0) {
        return given;
      }
      if (next >= total || waiting() > 0) {
        return CompletableFuture.completedFuture(null);
      }
      return CompletableFuture.runAsync(
          () -> {}, CompletableFuture.delayedExecutor(LOOK_MS, TimeUnit.MILLISECONDS));
    }

    @Override
    public void addSplits(List<Visits> splits) {
      for (Visits split : splits) {
        startMs = split.startMs;
        next = split.next;
      }
      given.complete(null);
    }

    @Override
    public void notifyNoMoreSplits() {}

    @Override
    public void close() {}
  }

  static final class VisitsSerializer implements SimpleVersionedSerializer<Visits> {
    @Override
    public int getVersion() {
      return 1;
    }

    @Override
    public byte[] serialize(Visits visits) {
      return ByteBuffer.allocate(16).putLong(visits.next).putLong(visits.startMs).array();
    }

    @Override
    public Visits deserialize(int version, byte[] bytes) throws IOException {
      ByteBuffer read = ByteBuffer.wrap(bytes);
      return new Visits(read.getLong(), read.getLong());
    }
  }

  static final class FlagSerializer implements SimpleVersionedSerializer<Boolean> {
    @Override
    public int getVersion() {
      return 1;
    }

    @Override
    public byte[] serialize(Boolean flag) {
      return new byte[] {(byte) (flag ? 1 : 0)};
    }

    @Override
    public Boolean deserialize(int version, byte[] bytes) {
      return Arrays.equals(bytes, new byte[] {1});
    }
  }

  /** Starts the job. */
  public static void main(String[] arguments) throws Exception {
    StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
    VisitSource source =
        new VisitSource(Long.parseLong(arguments[1]), Double.parseDouble(arguments[2]));
    Counter counter =
        new Counter(
            1000 * Long.parseLong(arguments[3]), Integer.parseInt(arguments[4]), arguments[6]);
    env.fromSource(source, WatermarkStrategy.noWatermarks(), "visits")
        .uid("visits")
        .setParallelism(1)
        .keyBy(VisitCount::pageOf)
        .process(counter)
        .uid("count")
        .name("count")
        .setParallelism(Integer.parseInt(arguments[5]))
        .sinkTo(new DiscardingSink<>())
        .uid("end")
        .name("end")
        .setParallelism(Integer.parseInt(arguments[5]));
    env.execute(arguments[0]);
  }
}
