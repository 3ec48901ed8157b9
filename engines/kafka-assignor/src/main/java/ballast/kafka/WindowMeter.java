package ballast.kafka;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;
import org.apache.kafka.common.TopicPartition;

/**
 * Counts what a member does in each window: records, bytes and CPU time of each partition. Windows are
 * aligned to the clock. Called by the polling thread, read by the reporting thread.
 *
 * <p>Until the length of windows is known nothing is counted. The window in which counting begins is
 * not whole.
 */
final class WindowMeter {
  /** What was done for a partition. */
  static final class Use {
    final long heldFromMs;
    long records;
    long bytes;
    double cpuMs;

    Use(long heldFromMs) {
      this.heldFromMs = heldFromMs;
    }
  }

  /**
   * A window that is over.
   *
   * @param isWhole whether it was counted from its start
   */
  record Window(
      long startMs,
      long lengthMs,
      long version,
      long heartbeats,
      boolean isWhole,
      Map<TopicPartition, Use> uses) {}

  private final LongSupplier clock;
  private final List<Window> finished = new ArrayList<>();
  private Map<TopicPartition, Use> uses = new HashMap<>();
  private long lengthMs;
  private long beganMs;
  private long startMs;
  private long nowMs;
  private long version;
  private long heartbeats;

  WindowMeter(LongSupplier clock) {
    this.clock = clock;
  }

  /** Uses windows of this length from now on; what was counted for other ones is dropped. */
  synchronized void setLength(long length) {
    if (length < 1 || length == lengthMs) {
      return;
    }
    lengthMs = length;
    beganMs = now();
    startMs = beganMs - beganMs % length;
    heartbeats = 0;
    uses = heldAgain(beganMs);
  }

  /** The plan version that the partitions are assigned under. */
  synchronized void setVersion(long newVersion) {
    roll();
    version = newVersion;
  }

  synchronized void hold(Collection<TopicPartition> partitions) {
    long now = roll();
    partitions.forEach(partition -> uses.putIfAbsent(partition, new Use(now)));
  }

  synchronized void release(Collection<TopicPartition> partitions) {
    roll();
    partitions.forEach(uses::remove);
  }

  /** A sign of life of the polling thread. */
  synchronized void beat() {
    roll();
    heartbeats++;
  }

  /** Adds what a batch of one partition needed; one that is not held any more is not counted. */
  synchronized void add(TopicPartition partition, long records, long bytes, double cpuMs) {
    roll();
    Use use = uses.get(partition);
    if (use != null) {
      use.records += records;
      use.bytes += bytes;
      use.cpuMs += cpuMs;
    }
  }

  /** The windows that ended since the last call. */
  synchronized List<Window> finished() {
    roll();
    List<Window> found = List.copyOf(finished);
    finished.clear();
    return found;
  }

  /** Ends the windows that are over; a step back of the clock is ignored. */
  private long roll() {
    long now = now();
    while (lengthMs > 0 && startMs + lengthMs <= now) {
      finished.add(
          new Window(startMs, lengthMs, version, heartbeats, beganMs <= startMs, uses));
      startMs += lengthMs;
      heartbeats = 0;
      Map<TopicPartition, Use> next = new HashMap<>();
      uses.forEach((partition, use) -> next.put(partition, new Use(use.heldFromMs)));
      uses = next;
      if (now - startMs > 100 * lengthMs) {
        // The process slept: windows that nobody waits for are left out.
        startMs = now - now % lengthMs;
        beganMs = now;
      }
    }
    return now;
  }

  private long now() {
    nowMs = Math.max(nowMs, clock.getAsLong());
    return nowMs;
  }

  private Map<TopicPartition, Use> heldAgain(long since) {
    Map<TopicPartition, Use> again = new HashMap<>();
    uses.keySet().forEach(partition -> again.put(partition, new Use(since)));
    return again;
  }
}
