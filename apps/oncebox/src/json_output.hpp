#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// JSON for the few answers that are no part of the HTTP service, and so not of wire/.
namespace oncebox::app {

/// JSON that is ready, to stand inside other JSON.
struct RawJson {
  std::string text;
};

class JsonField {
 public:
  using Value = std::variant<std::int64_t, double, bool, std::string, RawJson>;

  JsonField(std::string_view name, std::string_view text)
      : JsonField(name, Value(std::string(text))) {}
  JsonField(std::string_view name, const char* text) : JsonField(name, std::string_view(text)) {}
  JsonField(std::string_view name, const std::string& text)
      : JsonField(name, std::string_view(text)) {}
  JsonField(std::string_view name, bool flag) : JsonField(name, Value(flag)) {}
  JsonField(std::string_view name, double number) : JsonField(name, Value(number)) {}
  JsonField(std::string_view name, RawJson json) : JsonField(name, Value(std::move(json))) {}
  template <std::integral Integer>
  JsonField(std::string_view name, Integer number)
      : JsonField(name, Value(static_cast<std::int64_t>(number))) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const Value& value() const noexcept { return value_; }

 private:
  JsonField(std::string_view name, Value value) : name_(name), value_(std::move(value)) {}

  std::string name_;
  Value value_;
};

/// One object on one line.
[[nodiscard]] std::string json_object(const std::vector<JsonField>& fields);

[[nodiscard]] std::string json_array(const std::vector<std::string>& texts);

}  // namespace oncebox::app
