#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "oncebox/content_hash.hpp"
#include "oncebox/dead_group.hpp"

namespace oncebox {

namespace {

constexpr std::size_t kFingerprintBytes = 8;
constexpr std::size_t kMinHexLetters = 8;
constexpr std::size_t kMinLongId = 16;
/// Fewer digits inside a word are part of its name: utf8, HTTP2, p99.
constexpr std::size_t kMinDigitsInWord = 3;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
/// Bytes beyond ASCII belong to words, whatever they mean.
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_blank_or_control(char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; }

/// How many characters at the beginning satisfy the condition.
template <class Condition>
std::size_t run_of(std::string_view text, Condition holds) {
  return static_cast<std::size_t>(std::ranges::find_if_not(text, holds) - text.begin());
}

/// How long the text is that matches `pattern` at the beginning, where `d` stands for a digit, `h`
/// for a hexadecimal one, `T` for a T or a blank, and everything else for itself; 0: none.
std::size_t match(std::string_view text, std::string_view pattern) {
  if (text.size() < pattern.size()) return 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = text[i];
    const char wanted = pattern[i];
    const bool fits = wanted == 'd'   ? is_digit(c)
                      : wanted == 'h' ? is_hex(c)
                      : wanted == 'T' ? c == 'T' || c == 't' || c == ' '
                                      : c == wanted;
    if (!fits) return 0;
  }
  return pattern.size();
}

/// `:05.123Z`, `:05`, `+01:00` and so on behind hours and minutes.
std::size_t rest_of_time(std::string_view text) {
  std::size_t length = match(text, ":dd");
  if (length > 0 && length + 1 < text.size() && (text[length] == '.' || text[length] == ',') &&
      is_digit(text[length + 1])) {
    length += 1 + run_of(text.substr(length + 1), is_digit);
  }
  const std::string_view zone = text.substr(length);
  if (zone.starts_with('Z')) return length + 1;
  for (const std::string_view pattern : {"+dd:dd", "-dd:dd", "+dddd", "-dddd"}) {
    if (const std::size_t found = match(zone, pattern)) return length + found;
  }
  return length;
}

/// A date, a time of day, or both.
std::size_t match_time(std::string_view text) {
  if (const std::size_t date = match(text, "dddd-dd-dd")) {
    const std::size_t minutes = match(text.substr(date), "Tdd:dd");
    return minutes == 0 ? date : date + minutes + rest_of_time(text.substr(date + minutes));
  }
  if (match(text, "dd:dd:dd") == 0) return 0;
  return 5 + rest_of_time(text.substr(5));
}

std::size_t match_number(std::string_view text) {
  std::size_t length = run_of(text, is_digit);
  while (length > 0 && length + 1 < text.size() && (text[length] == '.' || text[length] == ',') &&
         is_digit(text[length + 1])) {
    length += 1 + run_of(text.substr(length + 1), is_digit);
  }
  return length;
}

/// With both quotes; 0 when the quote is none, as in "can't", or is never closed.
std::size_t match_quoted(std::string_view text) {
  const char quote = text.front();
  for (std::size_t i = 1; i < text.size(); ++i) {
    const bool is_doubled = text[i] == quote && text.substr(i + 1).starts_with(quote);
    if (text[i] == '\\' || is_doubled) {
      ++i;
    } else if (text[i] == quote && (i + 1 == text.size() || !is_word(text[i + 1]))) {
      return i + 1;
    }
  }
  return 0;
}

class Normaliser {
 public:
  explicit Normaliser(std::string_view text, std::vector<std::string_view> own = {})
      : rest_(text), own_(std::move(own)) {}

  std::string run() {
    while (!rest_.empty()) step();
    if (out_.ends_with(' ')) out_.pop_back();
    return std::move(out_);
  }

 private:
  void step() {
    const char c = rest_.front();
    if (const std::size_t own = follows_word_ ? 0 : match_own(); own > 0) {
      replace(own, "<id>");
      follows_word_ = true;
      return;
    }
    if (is_blank_or_control(c)) {
      rest_.remove_prefix(run_of(rest_, is_blank_or_control));
      if (!out_.empty()) out_ += ' ';
    } else if (is_word(c)) {
      take_word();
    } else if ((c == '"' || c == '\'' || c == '`') && !follows_word_ && match_quoted(rest_) > 0) {
      replace(match_quoted(rest_), "<text>");
    } else {
      out_ += c;
      rest_.remove_prefix(1);
    }
    follows_word_ = is_word(c);
  }

  void replace(std::size_t length, std::string_view placeholder) {
    out_ += placeholder;
    rest_.remove_prefix(length);
  }

  /// How long the longest of the message's own texts is that stands here; 0: none does.
  [[nodiscard]] std::size_t match_own() const {
    std::size_t longest = 0;
    for (const std::string_view text : own_) {
      if (text.size() > longest && rest_.starts_with(text) && ends_at(text.size())) {
        longest = text.size();
      }
    }
    return longest;
  }

  /// Whether what follows so many characters does not belong to them.
  [[nodiscard]] bool ends_at(std::size_t length) const {
    return length > 0 && (length == rest_.size() || !is_word(rest_[length]));
  }

  void take_word() {
    constexpr std::string_view kUuid = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh";
    if (ends_at(match(rest_, kUuid))) return replace(kUuid.size(), "<uuid>");
    const std::size_t time = match_time(rest_);
    if (ends_at(time)) return replace(time, "<time>");
    const std::string_view word = rest_.substr(0, run_of(rest_, is_word));
    const bool has_digit = std::ranges::any_of(word, is_digit);
    const bool all_digits = std::ranges::all_of(word, is_digit);
    if (is_hexadecimal(word) && has_digit && !all_digits) return replace(word.size(), "<hex>");
    if (const std::size_t number = match_number(rest_)) return take_number(number);
    if (has_digit && word.size() >= kMinLongId) return replace(word.size(), "<id>");
    take_name(word);
  }

  static bool is_hexadecimal(std::string_view word) {
    if (word.starts_with("0x") || word.starts_with("0X"))
      word.remove_prefix(2);
    else if (word.size() < kMinHexLetters)
      return false;
    return !word.empty() && std::ranges::all_of(word, is_hex);
  }

  /// And its unit, if it has one: 30s.
  void take_number(std::size_t length) {
    replace(length, "<n>");
    const std::string_view unit = rest_.substr(0, run_of(rest_, is_word));
    if (std::ranges::any_of(unit, is_digit) && unit.size() + length >= kMinLongId) {
      out_.replace(out_.size() - 3, 3, "<id>");
      rest_.remove_prefix(unit.size());
      return;
    }
    take_name(unit);
  }

  void take_name(std::string_view word) {
    rest_.remove_prefix(word.size());
    while (!word.empty()) {
      const std::size_t digits = run_of(word, is_digit);
      if (digits >= kMinDigitsInWord) {
        out_ += "<n>";
        word.remove_prefix(digits);
        continue;
      }
      const std::size_t taken =
          digits > 0 ? digits : run_of(word, [](char c) { return !is_digit(c); });
      out_ += word.substr(0, taken);
      word.remove_prefix(taken);
    }
  }

  std::string_view rest_;
  const std::vector<std::string_view> own_;
  std::string out_;
  bool follows_word_ = false;
};

/// What names a message. A text that becomes a single placeholder anyway is left out: an id of 1
/// must not make "attempt 1" another error than "attempt 2".
std::vector<std::string_view> names_of(const MessageRecord& record) {
  std::vector<std::string_view> names;
  const auto add = [&names](std::string_view name) {
    const std::string normal = normalise_error(name);
    const bool is_placeholder = normal.starts_with('<') && normal.find('>') + 1 == normal.size();
    if (!name.empty() && !is_placeholder) names.push_back(name);
  };
  add(record.key.message_id.str());
  add(record.key.source.str());
  if (!record.message) return names;
  if (record.message->partition_key) add(record.message->partition_key->str());
  for (const std::string_view header :
       {header_names::kCorrelationId, header_names::kCausationId, header_names::kIdempotencyKey}) {
    if (const auto value = record.message->headers.get(header)) add(*value);
  }
  return names;
}

std::string fingerprint_of(const std::string& normalised) {
  // The version is hashed too, so that fingerprints of two versions are never taken for the same.
  const std::string digest =
      sha256("oncebox error " + std::to_string(kErrorFingerprintVersion) + ":" + normalised);
  return to_hex(std::string_view(digest).substr(0, kFingerprintBytes));
}

}  // namespace

std::string normalise_error(std::string_view error) { return Normaliser(error).run(); }

std::string normalise_error(const MessageRecord& record) {
  if (!record.history.last_error) return {};
  return Normaliser(*record.history.last_error, names_of(record)).run();
}

std::string error_fingerprint(std::string_view error) {
  return fingerprint_of(normalise_error(error));
}

std::string error_fingerprint(const MessageRecord& record) {
  return fingerprint_of(normalise_error(record));
}

}  // namespace oncebox
