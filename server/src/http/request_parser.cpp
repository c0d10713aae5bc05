#include "http/request_parser.hpp"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/verb.hpp>
#include <utility>

#include "oncebox/internal/authority.hpp"

namespace oncebox::server {

namespace beast_http = boost::beast::http;
using ErrorCodeOf = boost::beast::error_code;
using Text = boost::beast::string_view;

namespace {

/// All that the extensions of a body's chunks may take: nobody reads them.
constexpr std::size_t kMaxChunkExtensionBytes = 4 << 10;

/// The shortest chunked body. Beast's parser must not see an empty body's line with one byte behind
/// it: it asserts that there are two.
constexpr std::string_view kEmptyChunkedBody = "0\r\n\r\n";

std::string_view as_view(Text text) { return {text.data(), text.size()}; }

Method method_of(beast_http::verb verb) {
  // Every other verb is one that no route has.
  if (verb == beast_http::verb::get) return Method::get;
  if (verb == beast_http::verb::head) return Method::head;
  if (verb == beast_http::verb::post) return Method::post;
  if (verb == beast_http::verb::put) return Method::put;
  if (verb == beast_http::verb::patch) return Method::patch;
  if (verb == beast_http::verb::delete_) return Method::delete_;
  if (verb == beast_http::verb::options) return Method::options;
  return Method::other;
}

bool is_decimal(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_host(std::string_view text) {
  constexpr std::size_t kMaxHostBytes = 255;
  return text.empty() || (text.size() <= kMaxHostBytes && detail::read_authority(text));
}

BadRequest bad(std::string detail) { return {.detail = std::move(detail)}; }

BadRequest bad_chunks() { return bad("the chunks of the body cannot be read"); }

BadRequest too_large_head(std::size_t limit) {
  return {.status = 431,
          .code = "too_large",
          .detail = "the header has more than " + std::to_string(limit) + " bytes"};
}

/// What is wrong with a head that the parser would not take. Its own words are about the parser.
BadRequest head_failure(const ErrorCodeOf& error, std::size_t limit) {
  if (error == beast_http::error::header_limit) return too_large_head(limit);
  if (error == beast_http::error::bad_version) {
    return {.status = 505, .detail = "only HTTP/1.1 and HTTP/1.0 are spoken here"};
  }
  if (error == beast_http::error::bad_method || error == beast_http::error::bad_target) {
    return bad("the request line cannot be read");
  }
  if (error == beast_http::error::bad_content_length ||
      error == beast_http::error::multiple_content_length ||
      error == beast_http::error::bad_transfer_encoding) {
    return bad("the length of the body is in doubt");
  }
  return bad("a header field cannot be read");
}

BadRequest body_failure(const ErrorCodeOf& error) {
  if (error == beast_http::error::body_limit) {
    return {.status = 413, .code = "too_large", .detail = "the body is too large"};
  }
  return bad_chunks();
}

/// Whether a line of the head is folded into the next one: the only thing in doubt that the parser
/// lets through.
bool has_folded_line(std::string_view head) {
  for (std::size_t at = head.find('\n'); at + 1 < head.size(); at = head.find('\n', at + 1)) {
    if (head[at + 1] == ' ' || head[at + 1] == '\t') return true;
  }
  return false;
}

/// Whether a CR or an LF stands alone; a CR that is the last of it may still get its LF.
bool has_bare_line_end(std::string_view text) {
  for (std::size_t at = text.find_first_of("\r\n"); at < text.size();
       at = text.find_first_of("\r\n", at + 2)) {
    if (text[at] == '\n' || (at + 1 < text.size() && text[at + 1] != '\n')) return true;
  }
  return false;
}

/// What is no data in the first bytes of a chunked body, fewer than the shortest one has.
std::string_view framing_of(std::string_view beginning) {
  if (beginning.starts_with("0\r\n")) return beginning;
  return beginning.substr(0, beginning.find("\r\n"));
}

/// The fields that decide where a request ends and whom it is for.
struct FramingFields {
  std::size_t content_lengths = 0;
  std::size_t transfer_encodings = 0;
  std::size_t hosts = 0;
};

/// One request. Not reusable: that is how Beast's parser is made.
class ParsedMessage final : public beast_http::basic_parser<true> {
 public:
  explicit ParsedMessage(const RequestParser::Limits& limits) : max_fields_(limits.max_fields) {
    header_limit(static_cast<std::uint32_t>(limits.max_header_bytes));
    body_limit(boost::none);
  }

  RequestHead head;
  std::string* body = nullptr;
  bool has_chunks = false;
  FramingFields framing;
  std::optional<BadRequest> refusal;

 private:
  void refuse(BadRequest why, ErrorCodeOf& error) {
    refusal = std::move(why);
    error = beast_http::error::bad_value;
  }

  void on_request_impl(beast_http::verb verb, Text, Text target, int version,
                       ErrorCodeOf&) override {
    head.method = method_of(verb);
    head.target.assign(target.data(), target.size());
    head.is_http_1_1 = version == 11;
    head.fields.reserve(8);
  }

  void on_response_impl(int, Text, int, ErrorCodeOf&) override {}

  void on_field_impl(beast_http::field field, Text name, Text value, ErrorCodeOf& error) override {
    if (is_header_done()) return;  // a trailer: nobody asked for it
    if (head.fields.size() == max_fields_) {
      return refuse({.status = 431, .code = "too_large", .detail = "too many header fields"},
                    error);
    }
    if (field == beast_http::field::content_length) {
      ++framing.content_lengths;
      if (!is_decimal(as_view(value))) {
        return refuse(bad("Content-Length is not one number"), error);
      }
    } else if (field == beast_http::field::transfer_encoding) {
      ++framing.transfer_encodings;
      if (!equal_ignoring_case(as_view(value), "chunked")) {
        return refuse({.status = 501, .detail = "Transfer-Encoding must be chunked"}, error);
      }
    } else if (field == beast_http::field::host) {
      ++framing.hosts;
      if (!is_host(as_view(value))) return refuse(bad("Host is not a host"), error);
    }
    head.fields.add(std::string(as_view(name)), std::string(as_view(value)));
  }

  void on_header_impl(ErrorCodeOf& error) override {
    if (framing.content_lengths > 1 || framing.transfer_encodings > 1 ||
        (framing.content_lengths == 1 && framing.transfer_encodings == 1) ||
        (framing.transfer_encodings == 1 && !head.is_http_1_1)) {
      return refuse(bad("the length of the body is in doubt"), error);
    }
    if (framing.hosts > 1 || (framing.hosts == 0 && head.is_http_1_1)) {
      return refuse(bad("a request names one Host"), error);
    }
  }

  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCodeOf&) override {}

  std::size_t on_body_impl(Text piece, ErrorCodeOf&) override {
    body->append(piece.data(), piece.size());
    return piece.size();
  }

  void on_chunk_header_impl(std::uint64_t, Text extensions, ErrorCodeOf& error) override {
    has_chunks = true;
    chunk_extension_bytes_ += extensions.size();
    // The parser takes an LF in a quoted value, where others end the line.
    if (chunk_extension_bytes_ > kMaxChunkExtensionBytes ||
        extensions.find('\n') != extensions.npos) {
      error = beast_http::error::bad_chunk_extension;
    }
  }

  std::size_t on_chunk_body_impl(std::uint64_t, Text piece, ErrorCodeOf&) override {
    body->append(piece.data(), piece.size());
    return piece.size();
  }

  void on_finish_impl(ErrorCodeOf&) override {}

  const std::size_t max_fields_;
  std::size_t chunk_extension_bytes_ = 0;
};

}  // namespace

class RequestParser::Impl {
 public:
  std::optional<ParsedMessage> message;
};

RequestParser::RequestParser(const Limits& limits)
    : limits_(limits), impl_(std::make_unique<Impl>()) {}

RequestParser::~RequestParser() = default;

std::variant<RequestParser::NeedMore, RequestParser::Head, BadRequest> RequestParser::read_head(
    std::string_view input) {
  // Some clients send an empty line behind a body.
  std::size_t blank = 0;
  while (blank < 4 && input.substr(blank, 2) == "\r\n") blank += 2;
  input.remove_prefix(blank);

  const std::size_t from =
      searched_ < blank + 3 ? 0 : std::min(searched_ - blank - 3, input.size());
  const std::size_t end = input.find("\r\n\r\n", from);
  if (std::min(end, input.size()) >= limits_.max_header_bytes) {
    return too_large_head(limits_.max_header_bytes);
  }
  // No line end that would be the last one for others, but not for us, is waited behind.
  std::string_view unseen = input.substr(from, end - from);
  if (from > 0 && unseen.starts_with('\n')) unseen.remove_prefix(1);
  if (input.starts_with("\r\n") || has_bare_line_end(unseen)) {
    return bad("a line of the header does not end in CR LF");
  }
  if (end == std::string_view::npos) {
    searched_ = blank + input.size();
    return NeedMore{};
  }
  searched_ = 0;
  const std::string_view head = input.substr(0, end + 4);
  if (has_folded_line(head)) return bad("a header field is folded over several lines");

  ParsedMessage& message = impl_->message.emplace(limits_);
  ErrorCodeOf error;
  message.put(boost::asio::const_buffer(head.data(), head.size()), error);
  if (message.refusal) return std::move(*message.refusal);
  if (error) return head_failure(error, limits_.max_header_bytes);
  if (!message.is_header_done()) return bad("the request line cannot be read");

  message.head.keep_alive = message.keep_alive();
  message.head.is_chunked = message.chunked();
  if (const auto length = message.content_length()) message.head.content_length = *length;
  message.eager(true);
  return Head{.head = std::move(message.head), .consumed = blank + head.size()};
}

void RequestParser::set_body_limit(std::size_t bytes) { impl_->message->body_limit(bytes); }

std::variant<RequestParser::Body, BadRequest> RequestParser::read_body(std::string_view input,
                                                                       std::string& body) {
  ParsedMessage& message = *impl_->message;
  Body result;
  result.complete = message.is_done();
  if (result.complete || input.empty()) return result;
  if (message.chunked() && !message.has_chunks && input.size() < kEmptyChunkedBody.size()) {
    if (has_bare_line_end(framing_of(input))) return bad_chunks();
    return result;
  }
  message.body = &body;
  ErrorCodeOf error;
  result.consumed = message.put(boost::asio::const_buffer(input.data(), input.size()), error);
  message.body = nullptr;
  if (error && error != beast_http::error::need_more) return body_failure(error);
  // What is left is the beginning of a chunk's line or of the trailer, which must be in the input
  // whole.
  if (error && (has_bare_line_end(input.substr(result.consumed)) ||
                (result.consumed == 0 && input.size() >= limits_.max_header_bytes))) {
    return bad_chunks();
  }
  result.complete = message.is_done();
  return result;
}

}  // namespace oncebox::server
