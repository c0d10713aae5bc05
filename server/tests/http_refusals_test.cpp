#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>

#include "http/answers.hpp"
#include "http/socket_connection.hpp"
#include "http_fixture.hpp"
#include "oncebox/error.hpp"
#include "watched.hpp"

namespace oncebox::server {
namespace {

using ::testing::HasSubstr;

using HttpRefusals = HttpTest;

/// What would be answered, too, if the server took the bytes behind a bad request for another one.
const std::string kSmuggled = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";

TEST_F(HttpRefusals, WhatTwoServersCouldReadInTwoWaysIsRefused) {
  start();
  const std::string host = "POST /echo HTTP/1.1\r\nHost: localhost\r\n";
  const std::pair<const char*, std::string> cases[] = {
      {"length and chunks", host + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
                                   "0\r\n\r\n"},
      {"chunks and length", host + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"
                                   "0\r\n\r\n"},
      {"two lengths", host + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"},
      {"the same length twice", host + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"},
      {"a list of lengths", host + "Content-Length: 3, 3\r\n\r\nabc"},
      {"a signed length", host + "Content-Length: +3\r\n\r\nabc"},
      {"a negative length", host + "Content-Length: -3\r\n\r\nabc"},
      {"a length in hex", host + "Content-Length: 0x3\r\n\r\nabc"},
      {"an empty length", host + "Content-Length: \r\n\r\nabc"},
      {"a length beyond 64 bits", host + "Content-Length: 18446744073709551616\r\n\r\nabc"},
      {"another encoding", host + "Transfer-Encoding: gzip\r\n\r\n"},
      {"another encoding first", host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
      {"chunks not last", host + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"},
      {"chunked twice", host + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"},
      {"two encodings",
       host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"an encoding in disguise", host + "Transfer-Encoding: \x0b"
                                         "chunked\r\n\r\n0\r\n\r\n"},
      {"quoted chunks", host + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n"},
      {"chunks in HTTP/1.0", "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
      {"a folded field", host + "X-A: b\r\n c\r\n\r\n"},
      {"a folded encoding", host + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n"},
      {"a field folded by a tab", host + "X-A: b\r\n\tc\r\n\r\n"},
      {"a space before the first field", "GET /hello HTTP/1.1\r\n Host: localhost\r\n\r\n"},
      {"a space before the colon", host + "Content-Length : 3\r\n\r\nabc"},
      {"a tab before the colon", host + "Content-Length\t: 3\r\n\r\nabc"},
      {"no colon", host + "Content-Length\r\n\r\n"},
      {"no name", host + ": a\r\n\r\n"},
      {"a bare LF between fields", host + "X-A: b\nContent-Length: 3\r\n\r\nabc"},
      {"bare LF at the end", "GET /hello HTTP/1.1\nHost: localhost\n\n\r\n\r\n"},
      {"a bare CR in a value", host + "X-A: b\rc\r\n\r\n"},
      {"a bare CR in a name", host + "X\rA: b\r\n\r\n"},
      {"NUL in a value", host + std::string("X-A: b\0c\r\n\r\n", 12)},
      {"NUL in a name", host + std::string("X\0A: b\r\n\r\n", 11)},
      {"a control character in a value", host + "X-A: b\x01\r\n\r\n"},
      {"no host", "GET /hello HTTP/1.1\r\n\r\n"},
      {"two hosts", "GET /hello HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"},
      {"a host that is none", "GET /hello HTTP/1.1\r\nHost: a b\r\n\r\n"},
      {"a host with a path", "GET /hello HTTP/1.1\r\nHost: localhost/x\r\n\r\n"},
      {"a host behind an address", "GET /hello HTTP/1.1\r\nHost: [::1]evil.com\r\n\r\n"},
      {"an address that is none", "GET /hello HTTP/1.1\r\nHost: [evil.com]\r\n\r\n"},
      {"an address without an end", "GET /hello HTTP/1.1\r\nHost: [::1\r\n\r\n"},
      {"a host with two ports", "GET /hello HTTP/1.1\r\nHost: localhost:80:80\r\n\r\n"},
      {"a host with an impossible port", "GET /hello HTTP/1.1\r\nHost: localhost:65536\r\n\r\n"},
      {"a host with a user", "GET /hello HTTP/1.1\r\nHost: me@localhost\r\n\r\n"},
      {"two names of the host", "GET http://other/hello HTTP/1.1\r\nHost: localhost\r\n\r\n"},
      {"chunks with a bad size", host + "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n"},
      {"chunks with a signed size", host + "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n"},
      {"a chunk longer than its size",
       host + "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n"},
      {"a bare LF in a chunk's extension",
       host + "Transfer-Encoding: chunked\r\n\r\n1;a=\"b\nc\"\r\na\r\n0\r\n\r\n"},
      {"a bare LF in a trailer",
       host + "Transfer-Encoding: chunked\r\n\r\n0\r\nX-A: b\nX-B: c\r\n\r\n"},
      {"chunks ended by LF", host + "Transfer-Encoding: chunked\r\n\r\n1\na\n0\n\n\r\n\r\n"},
  };
  for (const auto& [what, text] : cases) {
    SCOPED_TRACE(what);
    RawClient client = connect();
    client.send(text + kSmuggled);
    const RawResponse response = client.receive();
    EXPECT_GE(response.status, 400);
    EXPECT_THAT(code_of(response), ::testing::AnyOf("bad_request", "unsupported"));
    EXPECT_EQ(response.field("Content-Type"), "application/problem+json");
    EXPECT_EQ(response.field("X-Request-Id").size(), 36U);
    // A target may be wrong in a request whose end is clear; then the next one is another request.
    if (std::string_view(what) != "two names of the host") {
      EXPECT_EQ(response.field("Connection"), "close");
      EXPECT_EQ(client.receive_rest(), "");
    }
  }
  EXPECT_EQ(connect().ask(get_text("/hello")).status, 200);
}

TEST_F(HttpRefusals, ALineEndThatStandsAloneIsRefusedAtOnce) {
  start();
  const std::string host = "POST /echo HTTP/1.1\r\nHost: localhost\r\n";
  const std::string chunks = host + "Transfer-Encoding: chunked\r\n\r\n";
  // The server could wait for more behind each of them.
  const std::string cases[] = {
      "\n",
      "\r\n\n",
      "\rG",
      "\r\n\r\n\r\n",
      "GET /hello HTTP/1.1\n",
      "GET /hello HTTP/1.1\n\n",
      "GET /hello HTTP/1.1\nHost: localhost\n\n",
      "GET /hello HTTP/1.1\nHost: localhost\r\n",
      "GET /hello HTTP/1.1\r\n\n",
      "GET /hello HTTP/1.1\r\nHost: localhost\n",
      "GET /hello HTTP/1.1\r\nHost: localhost\n\n",
      "GET /hello HTTP/1.1\r\nHost: localhost\n\r\n",
      "GET /hello HTTP/1.1\r\nHost: localhost\r\n\n",
      "GET /hello HTTP/1.1\r\nHost: localhost\r\n\rX",
      "GET /hello HTTP/1.1\r\nHost: localhost\r\r",
      "GET /hello HTTP/1.1\r\nHost: localhost\rX-A: b",
      "GET /hello HTTP/1.1\r\nHost:\n localhost",
      "GET /hel\nlo",
      chunks + "1\n",
      chunks + "1\na\n",
      chunks + "1\na\n0\n\n",
      chunks + "1\rX",
      chunks + "1;a=b\n",
      chunks + "1;a=\"b\nc",
      chunks + "\n",
      chunks + "1\r\na\n",
      chunks + "1\r\na\r\r",
      chunks + "1\r\na\r\n\n",
      chunks + "1\r\na\r\n1\n",
      chunks + "0\n",
      chunks + "0\n\n",
      chunks + "0\r\n\n",
      chunks + "0\r\n\r0",
      chunks + "1\r\na\r\n0\n",
      chunks + "1\r\na\r\n0\n\n",
      chunks + "1\r\na\r\n0\r\n\n",
      chunks + "1\r\na\r\n0\r\nX-A: b\n",
      chunks + "1\r\na\r\n0\r\nX-A: b\n\n",
      chunks + "1\r\na\r\n0\r\nX-A: b\r\n\n",
      chunks + "1\r\na\r\n0\r\nX-A: b\rX",
  };
  for (const std::string& text : cases) {
    for (const bool by_single_bytes : {false, true}) {
      SCOPED_TRACE(::testing::PrintToString(text) + (by_single_bytes ? " byte by byte" : ""));
      RawClient client = connect();
      if (by_single_bytes) {
        for (const char& byte : text) client.send({&byte, 1});
      } else {
        client.send(text);
      }
      ASSERT_TRUE(client.has_news(std::chrono::seconds{10})) << "it is waited for more";
      const RawResponse response = client.receive();
      EXPECT_EQ(response.status, 400);
      EXPECT_EQ(code_of(response), "bad_request");
      EXPECT_EQ(response.field("Connection"), "close");
    }
  }
}

TEST_F(HttpRefusals, ALineEndInABodyIsDataAndInPiecesOfAHeadIsWhole) {
  start();
  RawClient client = connect();
  const std::string text =
      "\r\nPOST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "1\r\n\n\r\n6;x\r\na\nb\rc\n\r\n0\r\nX-A: b\r\n\r\n" +
      request_text("POST", "/echo", "\n\n\r\r\n");
  client.send(text);
  EXPECT_EQ(client.receive().body, "\na\nb\rc\n");
  EXPECT_EQ(client.receive().body, "\n\n\r\r\n");
  for (const char& byte : text) client.send({&byte, 1});
  EXPECT_EQ(client.receive().body, "\na\nb\rc\n");
  EXPECT_EQ(client.receive().body, "\n\n\r\r\n");
}

TEST_F(HttpRefusals, ABodyInAnEncodingThatIsNotUnderstoodIsRefused) {
  start();
  for (const char* fields :
       {"Content-Encoding: gzip\r\n", "Content-Encoding: identity, gzip\r\n",
        "Content-Encoding: GZIP\r\n", "Content-Encoding: identity\r\nContent-Encoding: br\r\n",
        "content-encoding: nonsense\r\n"}) {
    SCOPED_TRACE(fields);
    for (const char* path : {"/echo", "/streamed", "/v1/produce"}) {
      RawClient client = connect();
      const RawResponse response = client.ask(request_text(
          "POST", path, "x", "Content-Type: application/json\r\n" + std::string(fields)));
      EXPECT_EQ(response.status, 415) << path;
      EXPECT_EQ(code_of(response), "unsupported_media_type");
      EXPECT_EQ(response.field("Accept-Encoding"), "identity");
      EXPECT_EQ(client.ask(get_text("/hello")).status, 200) << "the connection is still good";
    }
  }
  EXPECT_EQ(connect().ask(request_text("POST", "/nowhere", "x", "Content-Encoding: br\r\n")).status,
            404);
  for (const char* fields : {"Content-Encoding: identity\r\n", "Content-Encoding: Identity\r\n",
                             "Content-Encoding: \r\n"}) {
    EXPECT_EQ(connect().ask(request_text("POST", "/echo", "x", fields)).body, "x") << fields;
  }
}

TEST_F(HttpRefusals, WhatIsNotHttpIsRefused) {
  start();
  const std::pair<int, std::string> cases[] = {
      {400,
       "\x16\x03\x01\x02"
       "TLS to a plain port\r\n\r\n"},
      {400, "GET\r\n\r\n"},
      {400, "GET /hello\r\n\r\n"},
      {400, " GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"},
      {400, "GET  /hello HTTP/1.1\r\nHost: a\r\n\r\n"},
      {505, "GET /hello HTTP/1.1 \r\nHost: a\r\n\r\n"},
      {505, "GET /hello HTTP/2.0\r\nHost: a\r\n\r\n"},
      {505, "GET /hello http/1.1\r\nHost: a\r\n\r\n"},
      {505, "GET /hello HTTP/0.9\r\nHost: a\r\n\r\n"},
      {400, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
      {400, "G(T /hello HTTP/1.1\r\nHost: a\r\n\r\n"},
      {400, "GET /hel\x01lo HTTP/1.1\r\nHost: a\r\n\r\n"},
      {400, "GET hello HTTP/1.1\r\nHost: localhost\r\n\r\n"},
      {400, "GET /hello#a HTTP/1.1\r\nHost: localhost\r\n\r\n"},
      {400, "GET /hello?a=%zz HTTP/1.1\r\nHost: localhost\r\n\r\n"},
      {400, "GET /request/%zz/a HTTP/1.1\r\nHost: localhost\r\n\r\n"},
      {400, "GET * HTTP/1.1\r\nHost: localhost\r\n\r\n"},
      {400, "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n"},
  };
  for (const auto& [status, text] : cases) {
    SCOPED_TRACE(text);
    RawClient client = connect();
    const RawResponse response = client.ask(text);
    if (text.starts_with("PRI")) {
      EXPECT_EQ(response.status, 505);
    } else {
      EXPECT_EQ(response.status, status);
    }
    EXPECT_EQ(response.field("Content-Type"), "application/problem+json");
  }
}

TEST_F(HttpRefusals, UnknownPathsAndMethodsAreProblems) {
  start();
  RawClient client = connect();
  RawResponse response = client.ask(get_text("/nowhere"));
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(code_of(response), "not_found");
  response = client.ask(request_text("DELETE", "/held"));
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(code_of(response), "method_not_allowed");
  EXPECT_EQ(response.field("Allow"), "GET, HEAD, POST");
  EXPECT_EQ(client.ask(request_text("BREW", "/held")).status, 405);
  response = client.ask(request_text("OPTIONS", "/held"));
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(response.field("Allow"), "GET, HEAD, POST, OPTIONS");
  EXPECT_EQ(client.ask(request_text("OPTIONS", "*")).status, 204);
  EXPECT_EQ(observer.requests.wait(0).route, "none");
}

TEST_F(HttpRefusals, HeadsHaveALimit) {
  options.limits.max_header_bytes = 2'000;
  start();
  const std::string fits(1'900, 'x');
  EXPECT_EQ(connect().ask(get_text("/hello", "X-A: " + fits + "\r\n")).status, 200);
  for (const std::string& text : {get_text("/hello", "X-A: " + std::string(2'000, 'x') + "\r\n"),
                                  "GET /" + std::string(3'000, 'x'), std::string(100'000, 'x')}) {
    RawClient client = connect();
    const RawResponse response = client.ask(text);
    EXPECT_EQ(response.status, 431);
    EXPECT_EQ(code_of(response), "too_large");
  }
}

TEST_F(HttpRefusals, FieldsAndParametersAreCounted) {
  start();
  std::string fields;
  std::string query;
  for (int i = 0; i < 200; ++i) {
    fields += "X-" + std::to_string(i) + ": a\r\n";
    query += "&a=" + std::to_string(i);
  }
  EXPECT_EQ(connect().ask(get_text("/hello", fields)).status, 431);
  EXPECT_EQ(connect().ask(get_text("/hello?" + query)).status, 400);
}

TEST_F(HttpRefusals, BodiesHaveALimit) {
  options.limits.max_body_bytes = 100'000;
  start();
  {
    // Said before: refused before.
    RawClient client = connect();
    const RawResponse response =
        client.ask("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100001\r\n\r\n");
    EXPECT_EQ(response.status, 413);
    EXPECT_EQ(code_of(response), "too_large");
    EXPECT_EQ(response.field("Connection"), "close");
  }
  {
    // The answer is not lost although the client goes on sending.
    RawClient client = connect();
    std::jthread sender(
        [&] { client.send(request_text("POST", "/echo", std::string(1'000'000, 'x'))); });
    EXPECT_EQ(client.receive().status, 413);
  }
  {
    RawClient client = connect();
    std::string text =
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (int i = 0; i < 11; ++i) text += "2710\r\n" + std::string(10'000, 'x') + "\r\n";
    std::jthread sender([&] { client.send(text); });
    EXPECT_EQ(client.receive().status, 413);
  }
}

TEST_F(HttpRefusals, ChunkLinesAndTrailersHaveALimit) {
  start();
  for (const std::string& text :
       {std::string("1;") + std::string(20'000, 'x'), "0\r\nX-A: " + std::string(100'000, 'x')}) {
    RawClient client = connect();
    std::jthread sender([&] {
      client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" +
                  text);
    });
    EXPECT_EQ(client.receive().status, 400);
  }
}

TEST_F(HttpRefusals, ARequestMustComeInWholeBeforeItsDeadline) {
  options.limits.request_timeout = Duration{80};
  options.limits.idle_timeout = std::chrono::minutes{5};
  start();
  for (const char* text : {"GET /hel", "POST /echo HTTP/1.1\r\nHost: localhost\r\n",
                           "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nab",
                           "POST /echo HTTP/1.1\r\nHost: localhost\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n5\r\nab"}) {
    SCOPED_TRACE(text);
    RawClient client = connect();
    client.send(text);
    move_time_until_news(client);
    const RawResponse response = client.receive();
    EXPECT_EQ(response.status, 408);
    EXPECT_EQ(code_of(response), "timeout");
    EXPECT_EQ(client.receive_rest(), "");
  }
}

TEST_F(HttpRefusals, BytesThatTrickleInDoNotMoveTheDeadline) {
  options.limits.request_timeout = Duration{150};
  start();
  RawClient client = connect();
  client.send("GET /hello HTTP/1.1\r\nHost: localhost\r\nX-A: ");
  // Fewer than fill a head.
  for (int byte = 0; byte < 5'000 && !client.has_news(std::chrono::milliseconds{5}); ++byte) {
    client.send("b");
    clock.advance(Duration{10});
  }
  EXPECT_EQ(client.receive().status, 408);
}

TEST_F(HttpRefusals, ThePipelinedBeginningOfARequestHasADeadlineToo) {
  options.limits.request_timeout = Duration{80};
  options.limits.idle_timeout = std::chrono::minutes{5};
  start();
  RawClient client = connect();
  client.send(request_text("POST", "/later", "a") + "GET /hel");
  EXPECT_EQ(client.receive().body, "a");
  move_time_until_news(client);
  EXPECT_EQ(client.receive().status, 408);
}

TEST_F(HttpRefusals, AnIdleConnectionIsClosed) {
  options.limits.idle_timeout = Duration{60};
  start();
  RawClient fresh = connect();
  move_time_until_news(fresh);
  EXPECT_EQ(fresh.receive_rest(), "");
  RawClient used = connect();
  EXPECT_EQ(used.ask(get_text("/hello")).status, 200);
  move_time_until_news(used);
  EXPECT_EQ(used.receive_rest(), "");
}

TEST_F(HttpRefusals, APendingAnswerHasAllTheTimeItNeeds) {
  options.limits.idle_timeout = Duration{40};
  options.limits.request_timeout = Duration{40};
  start();
  RawClient waiting = connect();
  waiting.send(request_text("POST", "/held", "x"));
  held.wait();
  // These two come and go meanwhile, which takes longer than each deadline.
  for (int i = 0; i < 2; ++i) {
    RawClient idle = connect();
    move_time_until_news(idle);
    EXPECT_EQ(idle.receive_rest(), "");
  }
  held.wait()->send(json_response("at last"));
  EXPECT_EQ(waiting.receive().body, "at last");
}

TEST_F(HttpRefusals, AClientThatDoesNotTakeItsAnswerIsCutOff) {
  options.limits.write_timeout = Duration{80};
  start();
  RawClient client = connect();
  client.set_receive_buffer(4096);
  client.send(get_text("/large/50000000"));
  (void)client.peek(1);
  EXPECT_TRUE(eventually([&] {
    clock.advance(Duration{10});
    return observer.connections() == 0;
  }));
}

TEST_F(HttpRefusals, AnAddressThatIsTakenIsAnError) {
  start();
  options.listen.port = server_->port();
  HttpServer second(options, router, *authenticator, logger, observer, clock);
  try {
    second.start();
    FAIL() << "it listens twice";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unavailable);
    EXPECT_THAT(error.what(), HasSubstr("127.0.0.1"));
  }
}

}  // namespace
}  // namespace oncebox::server
