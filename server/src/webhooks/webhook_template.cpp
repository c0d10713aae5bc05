#include "webhooks/webhook_template.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "oncebox/content_hash.hpp"
#include "oncebox/error.hpp"

namespace oncebox::server {

namespace {

[[noreturn]] void refuse_template(const std::string& why) {
  throw Error(ErrorCode::invalid_argument, why);
}

bool is_header_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

/// RFC 6901: empty, or parts that each begin with a slash, with ~0 and ~1 as the only escapes.
bool is_json_pointer(std::string_view text) {
  if (!text.empty() && text.front() != '/') return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '~' && (i + 1 == text.size() || (text[i + 1] != '0' && text[i + 1] != '1'))) {
      return false;
    }
  }
  return true;
}

}  // namespace

WebhookView::WebhookView(std::string_view webhook_name, const Request& request)
    : name_(webhook_name), request_(request) {}

std::optional<std::string_view> WebhookView::header(std::string_view name) const noexcept {
  return request_.fields.get(name);
}

std::optional<std::string_view> WebhookView::path() const noexcept {
  if (request_.arguments.size() < 2) return std::nullopt;
  return request_.arguments[1];
}

std::optional<std::string> WebhookView::json(std::string_view pointer) {
  if (!json_) json_.emplace(request_.body);
  return json_->find(pointer);
}

const std::string& WebhookView::sha256() {
  if (sha256_.empty()) sha256_ = oncebox::sha256(request_.body);
  return sha256_;
}

WebhookTemplate::WebhookTemplate(std::string_view text) {
  if (text.empty()) refuse_template("is empty");
  while (!text.empty()) {
    const std::size_t brace = std::min(text.find_first_of("{}"), text.size());
    if (brace > 0) parts_.emplace_back(Literal{std::string(text.substr(0, brace))});
    text.remove_prefix(brace);
    if (text.empty()) break;
    const std::size_t end = text.find('}');
    if (text.front() == '}') refuse_template("has a } without a {");
    if (end == std::string_view::npos) refuse_template("has a { without a }");
    parts_.push_back(read_placeholder(text.substr(1, end - 1)));
    text.remove_prefix(end + 1);
  }
}

WebhookTemplate::Part WebhookTemplate::read_placeholder(std::string_view inside) {
  constexpr std::string_view kHeader = "header:";
  constexpr std::string_view kJson = "json:";
  if (inside == "name") return WebhookName{};
  if (inside == "sha256") return BodySha256{};
  if (inside == "path") return Path{};
  if (inside.starts_with(kHeader)) {
    const std::string_view name = inside.substr(kHeader.size());
    if (is_header_name(name)) return Header{std::string(name)};
    refuse_template(fmt::format("has {{{}}}, in which \"{}\" is no header's name", inside, name));
  }
  if (inside.starts_with(kJson)) {
    const std::string_view pointer = inside.substr(kJson.size());
    if (is_json_pointer(pointer)) return Json{std::string(pointer)};
    refuse_template(
        fmt::format("has {{{}}}, in which \"{}\" is no JSON pointer (it would begin with a /)",
                    inside, pointer));
  }
  refuse_template(fmt::format(
      "has {{{}}}; use {{header:NAME}}, {{json:/pointer}}, {{path}}, {{name}} or {{sha256}}",
      inside));
}

std::optional<std::string> WebhookTemplate::value_of(const Part& part, WebhookView& webhook) {
  if (const auto* literal = std::get_if<Literal>(&part)) return literal->text;
  if (const auto* json = std::get_if<Json>(&part)) return webhook.json(json->pointer);
  if (std::holds_alternative<BodySha256>(part)) return to_hex(webhook.sha256());
  const auto copied = [](std::optional<std::string_view> value) {
    return value ? std::optional<std::string>(*value) : std::nullopt;
  };
  if (const auto* header = std::get_if<Header>(&part)) return copied(webhook.header(header->name));
  if (std::holds_alternative<Path>(part)) return copied(webhook.path());
  return std::string(webhook.name());
}

bool WebhookTemplate::uses_path() const noexcept {
  return std::ranges::any_of(parts_,
                             [](const Part& part) { return std::holds_alternative<Path>(part); });
}

std::optional<std::string> WebhookTemplate::render(WebhookView& webhook) const {
  std::string text;
  for (const Part& part : parts_) {
    const auto value = value_of(part, webhook);
    if (!value || value->empty()) return std::nullopt;
    text += *value;
  }
  return text;
}

}  // namespace oncebox::server
