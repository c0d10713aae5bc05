#include "http/incoming_request.hpp"

#include <algorithm>
#include <utility>

#include "oncebox/internal/authority.hpp"
#include "oncebox/uuid.hpp"

namespace oncebox::server {

namespace {

constexpr std::size_t kMaxRequestIdBytes = 128;
constexpr std::size_t kMaxQueryParameters = 64;

bool is_usable_id(std::string_view id) {
  return !id.empty() && id.size() <= kMaxRequestIdBytes &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

std::string new_id() { return Uuid::generate_v7(SystemClock::current()).to_string(); }

bool is_lower_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_zero(std::string_view text) { return text.find_first_not_of('0') == text.npos; }

}  // namespace

std::optional<std::string_view> read_traceparent(std::string_view text) noexcept {
  // version "-" trace id "-" parent id "-" flags; versions after 00 may append more.
  constexpr std::size_t kSize = 55;
  if (text.size() < kSize || text[2] != '-' || text[35] != '-' || text[52] != '-') {
    return std::nullopt;
  }
  const std::string_view version = text.substr(0, 2);
  const std::string_view trace = text.substr(3, 32);
  const std::string_view parent = text.substr(36, 16);
  if (!is_lower_hex(version) || !is_lower_hex(trace) || !is_lower_hex(parent) ||
      !is_lower_hex(text.substr(53, 2))) {
    return std::nullopt;
  }
  if (version == "ff" || is_zero(trace) || is_zero(parent)) return std::nullopt;
  if (text.size() > kSize && (version == "00" || text[kSize] != '-')) return std::nullopt;
  return text.substr(0, kSize);
}

Request make_request(RequestHead head, const std::string& peer) {
  Request request;
  request.method = head.method;
  request.fields = std::move(head.fields);
  request.peer = peer;
  const auto id = request.fields.get("X-Request-Id");
  request.id = id && is_usable_id(*id) ? std::string(*id) : new_id();
  const auto traceparent = request.fields.get("traceparent");
  if (traceparent && !read_traceparent(*traceparent)) request.fields.remove("traceparent");
  return request;
}

std::optional<BadRequest> read_target_into(Request& request, std::string_view target) {
  auto parts = read_target(target, kMaxQueryParameters);
  if (!parts) {
    request.path = target.substr(0, target.find_first_of("?#"));
    return BadRequest{.detail = "the target of the request cannot be read"};
  }
  request.path = std::move(parts->path);
  request.query = std::move(parts->query);
  if (parts->authority) {
    if (!detail::read_authority(*parts->authority)) {
      return BadRequest{.detail = "the target does not name a host"};
    }
    const auto host = request.fields.get("Host");
    if (host && !equal_ignoring_case(*host, *parts->authority)) {
      return BadRequest{.detail = "the target and the field Host name two hosts"};
    }
    if (!host) request.fields.add("Host", std::move(*parts->authority));
  }
  if (request.path == "*" && request.method != Method::options) {
    return BadRequest{.detail = "only OPTIONS is asked of the whole server"};
  }
  return std::nullopt;
}

Request make_unreadable_request(const std::string& peer) {
  Request request;
  request.method = Method::other;
  request.path = "-";
  request.peer = peer;
  request.id = new_id();
  return request;
}

}  // namespace oncebox::server
