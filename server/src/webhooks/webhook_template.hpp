#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "http/http_message.hpp"
#include "oncebox/wire/json_lookup.hpp"

namespace oncebox::server {

/// One webhook as templates see it. Reads the body as JSON, or hashes it, when the first template
/// asks for that.
class WebhookView {
 public:
  /// Both are borrowed.
  WebhookView(std::string_view webhook_name, const Request& request);
  WebhookView(const WebhookView&) = delete;
  WebhookView& operator=(const WebhookView&) = delete;

  [[nodiscard]] std::string_view name() const noexcept { return name_; }
  [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const noexcept;
  /// As `wire::JsonLookup` finds it in the body.
  [[nodiscard]] std::optional<std::string> json(std::string_view pointer);
  /// What stands behind the webhook's name in the path, decoded; nothing when that is the end.
  [[nodiscard]] std::optional<std::string_view> path() const noexcept;
  /// Of the body: 32 bytes.
  [[nodiscard]] const std::string& sha256();

 private:
  std::string_view name_;
  const Request& request_;
  std::optional<wire::JsonLookup> json_;  // once the body was read
  std::string sha256_;                    // empty: not yet
};

/// Text with `{header:NAME}`, `{json:/pointer}`, `{path}`, `{name}` and `{sha256}` in it.
class WebhookTemplate {
 public:
  /// Throws `invalid_argument` saying what is wrong with the text.
  explicit WebhookTemplate(std::string_view text);

  /// Nothing when a value that it names is not there or empty.
  [[nodiscard]] std::optional<std::string> render(WebhookView& webhook) const;

  /// Whether `{path}` is in it.
  [[nodiscard]] bool uses_path() const noexcept;

 private:
  struct Literal {
    std::string text;
  };
  struct Header {
    std::string name;
  };
  struct Json {
    std::string pointer;
  };
  struct Path {};
  struct WebhookName {};
  struct BodySha256 {};
  using Part = std::variant<Literal, Header, Json, Path, WebhookName, BodySha256>;

  static Part read_placeholder(std::string_view inside);
  static std::optional<std::string> value_of(const Part& part, WebhookView& webhook);

  std::vector<Part> parts_;
};

}  // namespace oncebox::server
