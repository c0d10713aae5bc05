#include "http/response_head.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace oncebox::server {

namespace {

/// For everything that no browser should ever render.
constexpr std::string_view kDataPolicy = "default-src 'none'; frame-ancestors 'none'";
/// For pages: what they need lies on this server. Styles may stand in the page, scripts may not.
constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

bool is_ours(std::string_view name) {
  constexpr std::string_view kOurs[] = {
      "Content-Length", "Transfer-Encoding", "Connection", "Content-Type", "Date",
      "Server",         "X-Request-Id"};
  return std::any_of(std::begin(kOurs), std::end(kOurs),
                     [name](std::string_view ours) { return equal_ignoring_case(ours, name); });
}

/// Whether a value can stand in a line: nothing may begin a line of its own.
bool is_one_line(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  if (!is_one_line(name) || !is_one_line(value)) return;
  out += name;
  out += ": ";
  out += value;
  out += "\r\n";
}

void append_number(std::string& out, std::size_t number) {
  const fmt::format_int text(number);
  out.append(text.data(), text.size());
}

}  // namespace

ResponseHeads::ResponseHeads(const ServerOptions& options) {
  fixed_ =
      "Server: oncebox\r\n"
      "X-Content-Type-Options: nosniff\r\n"
      "Referrer-Policy: no-referrer\r\n";
  if (options.tls.enabled()) fixed_ += "Strict-Transport-Security: max-age=31536000\r\n";
  if (!options.cors_origins.empty()) fixed_ += "Vary: Origin\r\n";
}

void ResponseHeads::append(std::string& out, const Response& response,
                           const ResponseFraming& framing) const {
  using Length = ResponseFraming::Length;
  out += "HTTP/1.1 ";
  append_number(out, static_cast<std::size_t>(response.status));
  out += ' ';
  out += reason_phrase(response.status);
  out += "\r\n";
  out += fixed_;
  append_field(out, "Date", framing.date);
  append_field(out, "X-Request-Id", framing.request_id);
  const bool has_content = framing.length != Length::none;
  if (has_content && !response.content_type.empty()) {
    append_field(out, "Content-Type", response.content_type);
  }
  if (framing.length == Length::known) {
    out += "Content-Length: ";
    append_number(out, framing.body_bytes);
    out += "\r\n";
  } else if (framing.length == Length::chunked) {
    out += "Transfer-Encoding: chunked\r\n";
  }
  if (!framing.keep_alive) {
    out += "Connection: close\r\n";
  } else if (!framing.is_http_1_1) {
    out += "Connection: keep-alive\r\n";
  }
  for (const auto& [name, value] : response.fields) {
    if (!is_ours(name)) append_field(out, name, value);
  }
  if (!response.fields.get("Cache-Control")) out += "Cache-Control: no-store\r\n";
  if (!response.fields.get("Content-Security-Policy")) {
    const bool is_page = response.content_type.starts_with("text/html");
    append_field(out, "Content-Security-Policy", is_page ? kPagePolicy : kDataPolicy);
  }
  out += "\r\n";
}

std::string_view reason_phrase(int status) noexcept {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

}  // namespace oncebox::server
