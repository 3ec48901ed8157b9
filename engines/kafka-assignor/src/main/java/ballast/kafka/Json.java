package ballast.kafka;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads and writes JSON: objects as maps, arrays as lists, integers as Long, other numbers as Double.
 *
 * <p>The assignor lives inside of other programs, so it brings no library with it.
 */
final class Json {
  private static final int DEEPEST = 32;

  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  /**
   * The value of a text.
   *
   * @throws IllegalArgumentException if it is not JSON
   */
  static Object read(String text) {
    Json reader = new Json(text);
    Object value = reader.value(0);
    reader.skipSpace();
    if (reader.at < text.length()) {
      throw reader.wrong("more text");
    }
    return value;
  }

  /** The text of a value that is made of maps, lists, strings, numbers, booleans and null. */
  static String write(Object value) {
    StringBuilder text = new StringBuilder();
    write(value, text);
    return text.toString();
  }

  private Object value(int depth) {
    if (depth > DEEPEST) {
      throw wrong("too deep");
    }
    skipSpace();
    return switch (peek()) {
      case '{' -> object(depth);
      case '[' -> array(depth);
      case '"' -> string();
      case 't' -> word("true", Boolean.TRUE);
      case 'f' -> word("false", Boolean.FALSE);
      case 'n' -> word("null", null);
      default -> number();
    };
  }

  private Map<String, Object> object(int depth) {
    Map<String, Object> values = new LinkedHashMap<>();
    expect('{');
    skipSpace();
    if (peek() == '}') {
      at++;
      return values;
    }
    while (true) {
      skipSpace();
      String name = string();
      skipSpace();
      expect(':');
      values.put(name, value(depth + 1));
      skipSpace();
      if (peek() == '}') {
        at++;
        return values;
      }
      expect(',');
    }
  }

  private List<Object> array(int depth) {
    List<Object> values = new ArrayList<>();
    expect('[');
    skipSpace();
    if (peek() == ']') {
      at++;
      return values;
    }
    while (true) {
      values.add(value(depth + 1));
      skipSpace();
      if (peek() == ']') {
        at++;
        return values;
      }
      expect(',');
    }
  }

  private String string() {
    expect('"');
    StringBuilder found = new StringBuilder();
    while (peek() != '"') {
      char letter = text.charAt(at++);
      found.append(letter == '\\' ? escaped() : letter);
    }
    at++;
    return found.toString();
  }

  private char escaped() {
    char letter = peek();
    at++;
    return switch (letter) {
      case 'b' -> '\b';
      case 'f' -> '\f';
      case 'n' -> '\n';
      case 'r' -> '\r';
      case 't' -> '\t';
      case '"', '\\', '/' -> letter;
      case 'u' -> codePoint();
      default -> throw wrong("an unknown escape");
    };
  }

  private char codePoint() {
    if (at + 4 > text.length()) {
      throw wrong("no end");
    }
    int code = Integer.parseInt(text.substring(at, at + 4), 16);
    at += 4;
    return (char) code;
  }

  private Object number() {
    int start = at;
    while (at < text.length() && "+-.0123456789eE".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
    String digits = text.substring(start, at);
    if (digits.isEmpty()) {
      throw wrong("no value");
    }
    if (digits.matches("-?[0-9]{1,18}")) {
      return Long.valueOf(digits);
    }
    return Double.valueOf(digits);
  }

  private Object word(String word, Object value) {
    if (!text.startsWith(word, at)) {
      throw wrong("no value");
    }
    at += word.length();
    return value;
  }

  private void skipSpace() {
    while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
  }

  private char peek() {
    if (at >= text.length()) {
      throw wrong("no end");
    }
    return text.charAt(at);
  }

  private void expect(char letter) {
    if (peek() != letter) {
      throw wrong("no " + letter);
    }
    at++;
  }

  private IllegalArgumentException wrong(String what) {
    return new IllegalArgumentException("not JSON: " + what + " at letter " + at);
  }

  private static void write(Object value, StringBuilder text) {
    if (value instanceof Map<?, ?> values) {
      String before = "{";
      for (Map.Entry<?, ?> entry : values.entrySet()) {
        text.append(before);
        writeString(String.valueOf(entry.getKey()), text);
        text.append(':');
        write(entry.getValue(), text);
        before = ",";
      }
      text.append(values.isEmpty() ? "{}" : "}");
    } else if (value instanceof Iterable<?> values) {
      text.append('[');
      String before = "";
      for (Object each : values) {
        text.append(before);
        write(each, text);
        before = ",";
      }
      text.append(']');
    } else if (value instanceof CharSequence) {
      writeString(value.toString(), text);
    } else {
      text.append(value);
    }
  }

  private static void writeString(String value, StringBuilder text) {
    text.append('"');
    for (int i = 0; i < value.length(); i++) {
      char letter = value.charAt(i);
      if (letter == '"' || letter == '\\') {
        text.append('\\').append(letter);
      } else if (letter < ' ' || letter > '~') {
        text.append(String.format("\\u%04x", (int) letter));
      } else {
        text.append(letter);
      }
    }
    text.append('"');
  }
}
