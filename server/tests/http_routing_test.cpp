#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/incoming_request.hpp"
#include "http/request_parser.hpp"
#include "http/response_head.hpp"
#include "http/router.hpp"
#include "oncebox/error.hpp"
#include "oncebox/server/server_options.hpp"

namespace oncebox::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class RouterTest : public ::testing::Test {
 protected:
  RouterTest() {
    add(Method::get, "/v1/messages");
    add(Method::post, "/v1/messages");
    add(Method::post, "/v1/messages/claim");
    add(Method::get, "/v1/messages/{source}/{messageId}");
    add(Method::post, "/v1/inbox/try-begin");
    add(Method::get, "/v1/inbox/{key*}");
    add(Method::get, "/");
  }

  void add(Method method, const std::string& pattern) {
    router_.add({.method = method, .pattern = pattern, .handler = [](const ExchangePtr&) {}});
  }
  /// The pattern and the arguments that were found, or what else was.
  std::vector<std::string> find(Method method, std::string_view path) {
    const auto found = router_.find(method, path);
    if (const auto* match = std::get_if<Match>(&found)) {
      std::vector<std::string> words{match->route->pattern};
      words.insert(words.end(), match->arguments.begin(), match->arguments.end());
      return words;
    }
    if (const auto* other = std::get_if<NoSuchMethod>(&found)) return {"only " + other->allowed};
    return {std::holds_alternative<BadPath>(found) ? "bad path" : "no such path"};
  }

  Router router_;
};

TEST_F(RouterTest, LiteralsWinOverNames) {
  EXPECT_THAT(find(Method::post, "/v1/messages/claim"), ElementsAre("/v1/messages/claim"));
  EXPECT_THAT(find(Method::get, "/v1/messages/claim/7"),
              ElementsAre("/v1/messages/{source}/{messageId}", "claim", "7"));
}

TEST_F(RouterTest, ANameOfAnotherMethodIsFoundBehindALiteral) {
  EXPECT_THAT(find(Method::get, "/v1/inbox/try-begin"),
              ElementsAre("/v1/inbox/{key*}", "try-begin"));
}

TEST_F(RouterTest, ArgumentsAreDecoded) {
  RecordProperty("requirement", "KIN-06");
  EXPECT_THAT(find(Method::get, "/v1/messages/a%2Fb/%C3%BC%20c:d"),
              ElementsAre("/v1/messages/{source}/{messageId}", "a/b", "\xC3\xBC c:d"));
  EXPECT_THAT(find(Method::get, "/v1/inbox/bus:group:a%2Fb/c"),
              ElementsAre("/v1/inbox/{key*}", "bus:group:a/b/c"));
  EXPECT_THAT(find(Method::get, "/v1/inbox//x"), ElementsAre("/v1/inbox/{key*}", "/x"));
}

TEST_F(RouterTest, SaysWhichMethodsAPathTakes) {
  EXPECT_THAT(find(Method::delete_, "/v1/messages"), ElementsAre("only GET, HEAD, POST"));
  EXPECT_THAT(find(Method::post, "/v1/inbox/other"), ElementsAre("only GET, HEAD"));
}

TEST_F(RouterTest, HeadFindsGet) {
  EXPECT_THAT(find(Method::head, "/v1/messages"), ElementsAre("/v1/messages"));
}

TEST_F(RouterTest, FindsNothingForOtherPaths) {
  for (const char* path : {"", "v1", "/v1", "/v1/", "/v1/messages/", "/v1/messages/a",
                           "/v1/messages/a/", "/v1/messages//b", "/v1/inbox", "/v1/inbox/", "//"}) {
    EXPECT_THAT(find(Method::get, path), ElementsAre("no such path")) << path;
  }
  EXPECT_THAT(find(Method::get, "/"), ElementsAre("/"));
}

TEST_F(RouterTest, ABrokenEscapeIsABadPath) {
  for (const char* path : {"/v1/inbox/%", "/v1/inbox/%2", "/v1/inbox/%zz", "/v1/messages/a/%G0"}) {
    EXPECT_THAT(find(Method::get, path), ElementsAre("bad path")) << path;
  }
}

TEST_F(RouterTest, RefusesPatternsThatCannotWork) {
  EXPECT_THROW(add(Method::get, "/v1/messages"), Error);
  EXPECT_THROW(add(Method::get, "/v1/messages/{x}/{y}"), Error);
  EXPECT_THROW(add(Method::get, "/v1/{rest*}/more"), Error);
  EXPECT_THROW(add(Method::get, "v1"), Error);
}

TEST(RequestTarget, HasAPathAndDecodedParameters) {
  const auto target = read_target("/v1/x%20y?topic=order.*&text=a+b%2Bc&empty=&flag&&a=1&a=2", 64);
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/v1/x%20y");
  std::vector<std::string> query;
  for (const auto& [name, value] : target->query) query.push_back(name + "=" + value);
  EXPECT_THAT(query, ElementsAre("topic=order.*", "text=a b+c", "empty=", "flag=", "a=1", "a=2"));
}

TEST(RequestTarget, MayNameTheServer) {
  const auto target = read_target("http://localhost:8080/v1?a=b", 64);
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/v1");
  EXPECT_EQ(target->authority, "localhost:8080");
  EXPECT_EQ(read_target("HTTPS://host", 64)->path, "/");
  EXPECT_EQ(read_target("*", 64)->path, "*");
}

TEST(RequestTarget, IsRefusedWhenItCannotBeRead) {
  for (const char* text :
       {"", "v1", "/a#b", "/?a=%zz", "/?%1=x", "ftp://x/", "host:443", "*?a", "http://h/a?b#c"}) {
    EXPECT_FALSE(read_target(text, 64)) << text;
  }
}

TEST(RequestTarget, HasABoundedNumberOfParameters) {
  std::string text = "/?a=0";
  for (int i = 1; i < 64; ++i) text += "&a=" + std::to_string(i);
  EXPECT_TRUE(read_target(text, 64));
  EXPECT_FALSE(read_target(text + "&b=1", 64));
}

TEST(Traceparent, IsCheckedAsW3CSays) {
  EXPECT_TRUE(read_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
  EXPECT_TRUE(read_traceparent("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-later"));
  for (const char* text : {"", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
                           "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                           "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                           "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                           "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}) {
    EXPECT_FALSE(read_traceparent(text)) << text;
  }
}

TEST(RequestParser, TakesAHeadThatComesByteByByte) {
  RequestParser parser({});
  const std::string text = "\r\nPOST /a HTTP/1.1\r\nHost: b\r\nContent-Length: 3\r\n\r\nabcNEXT";
  const std::size_t head_bytes = text.find("abc");
  for (std::size_t size = 1; size < head_bytes; ++size) {
    const auto result = parser.read_head(std::string_view(text).substr(0, size));
    ASSERT_TRUE(std::holds_alternative<RequestParser::NeedMore>(result)) << size;
  }
  const auto result = parser.read_head(text);
  const auto* head = std::get_if<RequestParser::Head>(&result);
  ASSERT_NE(head, nullptr);
  EXPECT_EQ(head->consumed, head_bytes);
  EXPECT_EQ(head->head.content_length, 3U);
  std::string body;
  const auto read = std::get<RequestParser::Body>(
      parser.read_body(std::string_view(text).substr(head_bytes), body));
  EXPECT_TRUE(read.complete);
  EXPECT_EQ(read.consumed, 3U);
  EXPECT_EQ(body, "abc");
}

/// Feeds a chunked body in pieces of this size, as sockets do.
std::string read_chunks(const std::string& text, std::size_t piece_bytes) {
  RequestParser parser({});
  static_cast<void>(
      parser.read_head("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
  parser.set_body_limit(100);
  std::string body;
  std::string buffer;
  for (std::size_t at = 0; at < text.size(); at += piece_bytes) {
    buffer += text.substr(at, piece_bytes);
    for (;;) {
      const auto result = parser.read_body(buffer, body);
      if (const auto* bad = std::get_if<BadRequest>(&result)) {
        return "refused " + std::to_string(bad->status);
      }
      const auto& read = std::get<RequestParser::Body>(result);
      buffer.erase(0, read.consumed);
      if (read.complete)
        return body + "|" + buffer + text.substr(std::min(at + piece_bytes, text.size()));
      if (read.consumed == 0 || buffer.empty()) break;
    }
  }
  return "incomplete: " + body;
}

TEST(RequestParser, TakesChunksHoweverTheyAreCut) {
  const std::string text =
      "3\r\nabc\r\n5;name=\"a;b\"\r\ndefgh\r\n0\r\nTrailer: x\r\nContent-Length: 9\r\n\r\nNEXT";
  // A length in the trailer contradicts the chunks.
  for (std::size_t size = 1; size <= text.size(); ++size) {
    EXPECT_EQ(read_chunks(text, size), "refused 400") << size;
  }
  const std::string good = "3\r\nabc\r\n5;name=\"a;b\"\r\ndefgh\r\n0\r\nTrailer: x\r\n\r\nNEXT";
  for (std::size_t size = 1; size <= good.size(); ++size) {
    EXPECT_EQ(read_chunks(good, size), "abcdefgh|NEXT") << size;
  }
  const std::string empty = "0\r\n\r\nNEXT";
  for (std::size_t size = 1; size <= empty.size(); ++size) {
    EXPECT_EQ(read_chunks(empty, size), "|NEXT") << size;
  }
}

TEST(RequestParser, RefusesBadChunks) {
  const std::string many_extensions = [] {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "1;" + std::string(100, 'x') + "\r\na\r\n";
    return text;
  }();
  for (const std::string& text :
       {std::string("x\r\n\r\n"), std::string("-1\r\na"), std::string("0x3\r\nabc\r\n\r\n"),
        std::string("3\nabc\n0\n\n\r\n\r\n"), std::string("3\r\nabcd\r\n0\r\n\r\n"),
        std::string("3\r\nab\r\n0\r\n\r\n"), std::string("10000000000000000\r\n"),
        std::string("3 \r\nabc\r\n"), std::string(" 3\r\nabc\r\n"), std::string("3;\r\nabc\r\n"),
        many_extensions}) {
    EXPECT_EQ(read_chunks(text, text.size()), "refused 400") << text;
  }
  EXPECT_EQ(read_chunks("65\r\na", 5), "refused 413");
  EXPECT_EQ(read_chunks("ffffffffffffffff\r\n", 18), "refused 413");
}

TEST(ResponseHeads, LetNoValueForgeALine) {
  const ResponseHeads heads({});
  Response response;
  response.fields.add("X-Good", "a");
  response.fields.add("X-Bad", "a\r\nSet-Cookie: b");
  response.fields.add("X\r\nY", "a");
  response.fields.add("Content-Length", "7");
  std::string out;
  heads.append(out, response, {.body_bytes = 3, .request_id = "r1", .date = "now"});
  EXPECT_THAT(out, HasSubstr("X-Good: a\r\n"));
  EXPECT_THAT(out, Not(HasSubstr("Set-Cookie")));
  EXPECT_THAT(out, Not(HasSubstr("X\r\nY")));
  EXPECT_THAT(out, Not(HasSubstr("Content-Length: 7")));
  EXPECT_THAT(out, HasSubstr("Content-Length: 3\r\n"));
}

TEST(ResponseHeads, AFieldOfTheResponseWins) {
  const ResponseHeads heads({});
  Response response;
  response.content_type = "text/html";
  response.fields.add("cache-control", "max-age=60");
  response.fields.add("Content-Security-Policy", "default-src 'self'");
  std::string out;
  heads.append(out, response, {});
  EXPECT_THAT(out, Not(HasSubstr("no-store")));
  EXPECT_THAT(out, Not(HasSubstr("frame-ancestors")));
}

std::string refusal_of(const std::function<void(ServerOptions&)>& change) {
  ServerOptions options;
  change(options);
  try {
    options.validate();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(ServerOptions, NameTheOptionThatDoesNotFit) {
  EXPECT_EQ(refusal_of([](ServerOptions&) {}), "none");
  using Change = std::function<void(ServerOptions&)>;
  const std::pair<const char*, Change> cases[] = {
      {"listen.host", [](auto& o) { o.listen.host = ""; }},
      {"tls.key", [](auto& o) { o.tls.certificate = "a"; }},
      {"tls.certificate", [](auto& o) { o.tls.key = "a"; }},
      {"tls.client_ca", [](auto& o) { o.tls.client_ca = "a"; }},
      {"tls.require_client_certificate",
       [](auto& o) {
         o.tls = {.certificate = "a", .key = "b", .require_client_certificate = true};
       }},
      {"limits.max_header_bytes", [](auto& o) { o.limits.max_header_bytes = 10; }},
      {"limits.max_body_bytes", [](auto& o) { o.limits.max_body_bytes = 0; }},
      {"limits.max_line_bytes", [](auto& o) { o.limits.max_line_bytes = 0; }},
      {"limits.memory", [](auto& o) { o.limits.memory_bytes = 16 * (8 << 20) - 1; }},
      {"limits.memory", [](auto& o) { o.limits.max_line_bytes = 64 << 20; }},
      {"limits.max_connections", [](auto& o) { o.limits.max_connections = 0; }},
      {"limits.request_timeout", [](auto& o) { o.limits.request_timeout = Duration{0}; }},
      {"limits.stream_timeout", [](auto& o) { o.limits.stream_timeout = Duration{0}; }},
      {"limits.idle_timeout", [](auto& o) { o.limits.idle_timeout = Duration{-1}; }},
      {"limits.write_timeout", [](auto& o) { o.limits.write_timeout = std::chrono::hours{2}; }},
      {"retention.done", [](auto& o) { o.retention.done = Duration{-1}; }},
      {"retention.dead", [](auto& o) { o.retention.dead = Duration{-1}; }},
      {"retention.keys", [](auto& o) { o.retention.keys = Duration{0}; }},
      {"retention.interval", [](auto& o) { o.retention.interval = Duration{0}; }},
      {"retention.reap_interval", [](auto& o) { o.retention.reap_interval = Duration{0}; }},
      {"cors_origins", [](auto& o) { o.cors_origins = {"shop.example"}; }},
      {"cors_origins", [](auto& o) { o.cors_origins = {"https://shop.example/"}; }},
      {"cors_origins", [](auto& o) { o.cors_origins = {"https://"}; }},
      {"topics", [](auto& o) { o.topics = {{.topic = ""}}; }},
      {"retry", [](auto& o) { o.retry.max_attempts = 0; }},
      {"io_threads", [](auto& o) { o.io_threads = 100'000; }},
      {"call_threads", [](auto& o) { o.call_threads = 0; }},
      {"max_queued_calls", [](auto& o) { o.max_queued_calls = 0; }},
  };
  for (const auto& [option, change] : cases) {
    EXPECT_THAT(refusal_of(change), HasSubstr(option));
  }
}

}  // namespace
}  // namespace oncebox::server
