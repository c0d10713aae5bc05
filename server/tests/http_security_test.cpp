#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <vector>

#include "http/answers.hpp"
#include "http_fixture.hpp"
#include "oncebox/error.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "resident_memory.hpp"

namespace oncebox::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class HttpSecurity : public HttpTest {
 protected:
  void write_tokens(const std::string& text) {
    options.auth.token_file = folder.file("tokens");
    std::ofstream(options.auth.token_file) << text;
    std::filesystem::permissions(options.auth.token_file, std::filesystem::perms::owner_read |
                                                              std::filesystem::perms::owner_write);
  }
  void use_tls(const std::string& name) {
    const auto files = authority.sign("server", name);
    options.tls.certificate = files.certificate;
    options.tls.key = files.key;
  }
  RawClient connect_tls(const TestAuthority::Files& client = {}) {
    return RawClient(server_->port(),
                     {.ca = authority.ca(), .certificate = client.certificate, .key = client.key});
  }
  RawResponse call(const std::string& scope, const std::string& token) {
    const std::string field = token.empty() ? "" : "Authorization: Bearer " + token + "\r\n";
    return connect().ask(
        request_text("POST", "/v1/" + scope, "{}", "Content-Type: application/json\r\n" + field));
  }
  std::string refusal() {
    try {
      start();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
    return "none";
  }

  testing::TemporaryFolder folder;
  TestAuthority authority{folder.file("")};
};

TEST_F(HttpSecurity, WithoutTokensEverybodyMayDoEverything) {
  start();
  EXPECT_EQ(call("operate", "").body, "anonymous");
}

TEST_F(HttpSecurity, ATokenAllowsItsScopes) {
  RecordProperty("requirement", "KIN-08");
  write_tokens(
      "# who may do what\n"
      "shop produce s3cret-of-the-shop   # a comment\r\n"
      "\n"
      "worker consume,read with#hash-0123456789\n"
      "admin operate 0123456789abcdef0123456789\n");
  start();
  EXPECT_EQ(call("produce", "s3cret-of-the-shop").body, "shop");
  EXPECT_EQ(call("consume", "with#hash-0123456789").body, "worker");
  EXPECT_EQ(call("read", "with#hash-0123456789").body, "worker");
  EXPECT_EQ(call("operate", "0123456789abcdef0123456789").body, "admin");
  EXPECT_EQ(call("read", "0123456789abcdef0123456789").body, "admin");

  const RawResponse forbidden = call("consume", "s3cret-of-the-shop");
  EXPECT_EQ(forbidden.status, 403);
  EXPECT_EQ(code_of(forbidden), "forbidden");
  EXPECT_THAT(forbidden.body, HasSubstr("consume"));
  EXPECT_THAT(forbidden.field("WWW-Authenticate"), HasSubstr("scope=\"consume\""));
  EXPECT_EQ(call("produce", "0123456789abcdef0123456789").status, 403);
}

TEST_F(HttpSecurity, WithoutAKnownTokenNobodyComesIn) {
  write_tokens("shop produce s3cret-of-the-shop\n");
  start();
  const RawResponse missing = call("produce", "");
  EXPECT_EQ(missing.status, 401);
  EXPECT_EQ(code_of(missing), "unauthorized");
  EXPECT_EQ(missing.field("WWW-Authenticate"), "Bearer realm=\"oncebox\"");
  for (const char* token :
       {"wrong", "s3cret-of-the-sho", "s3cret-of-the-shop2", "shop", "S3CRET-OF-THE-SHOP"}) {
    const RawResponse wrong = call("produce", token);
    EXPECT_EQ(wrong.status, 401) << token;
    EXPECT_THAT(wrong.field("WWW-Authenticate"), HasSubstr("invalid_token"));
    EXPECT_THAT(wrong.body, Not(HasSubstr(token)));
  }
  for (const char* field : {"Authorization: Basic czNjcmV0\r\n", "Authorization: Bearer\r\n",
                            "Authorization: Bearer  \r\n", "Authorization: \r\n",
                            "Authorization: s3cret-of-the-shop\r\n"}) {
    EXPECT_EQ(connect().ask(request_text("POST", "/v1/produce", "{}", field)).status, 401) << field;
  }
  // What is open stays open.
  EXPECT_EQ(connect().ask(get_text("/hello")).status, 200);
  const auto lower = "authorization: bearer s3cret-of-the-shop\r\n";
  EXPECT_EQ(connect().ask(request_text("POST", "/v1/produce", "{}", lower)).status, 200);
}

TEST_F(HttpSecurity, ABigBodyIsNotTakenFromStrangers) {
  write_tokens("shop produce s3cret-of-the-shop\n");
  start();
  RawClient client = connect();
  client.send("POST /v1/produce HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n");
  const RawResponse response = client.receive();
  EXPECT_EQ(response.status, 401);
  EXPECT_EQ(response.field("Connection"), "close");
}

TEST_F(HttpSecurity, TokensAlsoComeFromTheEnvironment) {
  options.auth.token_variable = "ONCEBOX_TEST_TOKENS";
  ASSERT_EQ(setenv("ONCEBOX_TEST_TOKENS", "a produce from-the-environment\n", 1), 0);
  write_tokens("b produce from-the-file-0123\n");
  start();
  unsetenv("ONCEBOX_TEST_TOKENS");
  EXPECT_EQ(call("produce", "from-the-environment").body, "a");
  EXPECT_EQ(call("produce", "from-the-file-0123").body, "b");
}

TEST_F(HttpSecurity, ABadTokenFileIsRefusedWithoutShowingIt) {
  options.auth.token_file = folder.file("nowhere");
  EXPECT_THAT(refusal(), HasSubstr("auth.token_file"));
  for (const char* text :
       {"", "# nothing\n", "name\n", "name produce\n", "name fly the-secret-0123456789\n",
        "name produce, the-secret-0123456789 more\n", "name cert:\n", "name produce cert:\n",
        "a produce the-secret-0123456789\nb read the-secret-0123456789\n",
        "a produce the-secret-0123456789 topic=order.*\n",
        "a produce the-secret-0123456789 topics=\n",
        "a produce the-secret-0123456789 topics=a topics=b\n", "a produce topics=a\n",
        "a produce the-secret-0123456789 stores=a,,b\n",
        "anonymous produce the-secret-0123456789\n", "\xff produce the-secret-0123456789\n"}) {
    write_tokens(text);
    const std::string why = refusal();
    EXPECT_THAT(why, HasSubstr("auth.token_file")) << text;
    EXPECT_THAT(why, Not(HasSubstr("the-secret")));
  }
}

TEST_F(HttpSecurity, ATokenWithLimitsReachesOnlyRoutesThatHoldToThem) {
  RecordProperty("requirement", "KIN-08");
  write_tokens(
      "of-store read the-secret-of-a-store stores=main,tenant-*\n"
      "of-topic read the-secret-of-a-topic topics=order.*   # a comment\n"
      "robot read cert:Robot 7 stores=main sources=shop\n");
  const auto add = [&](std::string pattern, HeldLimits limits) {
    router.add({.pattern = std::move(pattern),
                .scope = Scope::read,
                .handler =
                    [](const ExchangePtr& exchange) {
                      const auto& of_token = exchange->request().principal.limits;
                      exchange->send(json_response(fmt::format("{} {} {}", of_token->stores.size(),
                                                               of_token->sources.size(),
                                                               of_token->topics.size())));
                    },
                .limits = limits});
  };
  add("/limits/none", HeldLimits::none);
  add("/limits/stores", HeldLimits::stores);
  add("/limits/all", HeldLimits::all);
  start();
  const auto ask = [&](const std::string& path, const std::string& token) {
    return connect().ask(
        request_text("GET", "/limits/" + path, "", "Authorization: Bearer " + token + "\r\n"));
  };
  EXPECT_EQ(ask("none", "the-secret-of-a-store").status, 403);
  EXPECT_THAT(ask("none", "the-secret-of-a-store").body, HasSubstr("limited"));
  EXPECT_EQ(ask("stores", "the-secret-of-a-store").body, "2 0 0");
  EXPECT_EQ(ask("all", "the-secret-of-a-store").body, "2 0 0");
  EXPECT_EQ(ask("none", "the-secret-of-a-topic").status, 403);
  EXPECT_EQ(ask("stores", "the-secret-of-a-topic").status, 403);
  EXPECT_EQ(ask("all", "the-secret-of-a-topic").body, "0 0 1");
  const auto checked = authenticator->check({.certificate_name = "Robot 7"}, Scope::read);
  EXPECT_EQ(std::get<Principal>(checked).limits->sources.size(), 1U);
}

TEST(TokenLimits, APatternIsAllowedWhenAllThatItMatchesIs) {
  const std::vector<TopicPattern> limits{"order.*", "mail"};
  for (const char* inside : {"order.*", "order.paid", "order.paid.*", "mail"}) {
    EXPECT_TRUE(allows_all(limits, inside)) << inside;
  }
  for (const char* outside : {"*", "order*", "orders", "mail*", "mail.a"}) {
    EXPECT_FALSE(allows_all(limits, outside)) << outside;
  }
  EXPECT_TRUE(allows_all({}, "*"));
  EXPECT_TRUE(allows(limits, "order.x"));
  EXPECT_FALSE(allows(limits, "invoice"));
}

TEST_F(HttpSecurity, CarelessTokensAreWarnedAbout) {
  write_tokens("shop produce short\n");
  std::filesystem::permissions(options.auth.token_file, std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  start();
  EXPECT_THAT(logger.lines.wait(0), HasSubstr("warning everybody on this machine can read"));
  EXPECT_THAT(logger.lines.wait(1), HasSubstr("so short that it can be guessed name=shop"));
}

TEST_F(HttpSecurity, TokensAreReadAgain) {
  write_tokens("shop produce the-old-secret-0123\n");
  start();
  EXPECT_EQ(call("produce", "the-old-secret-0123").status, 200);
  write_tokens("shop produce the-new-secret-0123\n");
  authenticator->reload();
  EXPECT_EQ(call("produce", "the-old-secret-0123").status, 401);
  EXPECT_EQ(call("produce", "the-new-secret-0123").status, 200);
  write_tokens("broken\n");
  EXPECT_THROW(authenticator->reload(), Error);
  EXPECT_EQ(call("produce", "the-new-secret-0123").status, 200);
}

TEST_F(HttpSecurity, NobodyListensBeyondLoopbackWithoutAGuard) {
  options.listen.host = "0.0.0.0";
  EXPECT_THAT(refusal(), HasSubstr("allow_anonymous_remote"));
  options.listen.host = "::";
  EXPECT_THAT(refusal(), HasSubstr("listen.host"));
  options.listen.host = "not an address";
  EXPECT_THAT(refusal(), HasSubstr("listen.host"));
  options.listen.host = "0.0.0.0";
  options.listen.allow_anonymous_remote = true;
  EXPECT_EQ(refusal(), "none");
  options.listen.allow_anonymous_remote = false;
  write_tokens("shop produce s3cret-of-the-shop\n");
  EXPECT_EQ(refusal(), "none");
  EXPECT_EQ(call("produce", "s3cret-of-the-shop").status, 200);
}

TEST_F(HttpSecurity, AnswersHaveSecurityFields) {
  start();
  const RawResponse response = connect().ask(get_text("/hello"));
  EXPECT_EQ(response.field("Server"), "oncebox");
  EXPECT_EQ(response.field("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(response.field("Referrer-Policy"), "no-referrer");
  EXPECT_EQ(response.field("Cache-Control"), "no-store");
  EXPECT_THAT(response.field("Content-Security-Policy"), HasSubstr("default-src 'none'"));
  EXPECT_EQ(response.field("Strict-Transport-Security"), "");
  EXPECT_EQ(response.field("Access-Control-Allow-Origin"), "");
  EXPECT_EQ(response.field("Date").size(), 29U);
  EXPECT_EQ(connect().ask("nonsense\r\n\r\n").field("X-Content-Type-Options"), "nosniff");
}

TEST_F(HttpSecurity, PagesOfOtherOriginsCanDoNothing) {
  start();
  const auto post = [this](const std::string& fields) {
    return connect().ask(request_text("POST", "/echo", "x", fields)).status;
  };
  EXPECT_EQ(post("Origin: https://evil.example\r\n"), 403);
  EXPECT_EQ(post("Origin: null\r\n"), 403);
  EXPECT_EQ(post("Origin: http://localhost\r\n"), 200);
  EXPECT_EQ(post("Origin: HTTP://LOCALHOST:80\r\n"), 200);
  for (const char* other :
       {"https://localhost", "http://localhost:8080", "http://localhost:443", "http://localhost/",
        "http://localhost.evil.example", "http://evil.example://localhost", "evil://localhost",
        "http://localhost@evil.example", "http://me@localhost", "localhost", "://localhost",
        "http://", "http://localhost http://evil.example", "http://[::1]"}) {
    EXPECT_EQ(post("Origin: " + std::string(other) + "\r\n"), 403) << other;
  }
  const auto read = connect().ask(get_text("/hello", "Origin: https://evil.example\r\n"));
  EXPECT_EQ(read.field("Access-Control-Allow-Origin"), "");
  EXPECT_EQ(connect()
                .ask(request_text("OPTIONS", "/echo", "",
                                  "Origin: https://evil.example\r\n"
                                  "Access-Control-Request-Method: POST\r\n"))
                .field("Access-Control-Allow-Methods"),
            "");
}

TEST_F(HttpSecurity, PagesOfAllowedOriginsMayCall) {
  options.cors_origins = {"https://shop.example"};
  start();
  const std::string origin = "Origin: https://shop.example\r\n";
  const RawResponse preflight =
      connect().ask(request_text("OPTIONS", "/v1/produce", "",
                                 origin + "Access-Control-Request-Method: POST\r\n"
                                          "Access-Control-Request-Headers: authorization\r\n"));
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.field("Access-Control-Allow-Origin"), "https://shop.example");
  EXPECT_EQ(preflight.field("Access-Control-Allow-Methods"), "POST");
  EXPECT_THAT(preflight.field("Access-Control-Allow-Headers"), HasSubstr("Authorization"));
  EXPECT_EQ(preflight.field("Vary"), "Origin");
  const RawResponse call = connect().ask(request_text("POST", "/v1/produce", "{}", origin));
  EXPECT_EQ(call.status, 200);
  EXPECT_EQ(call.field("Access-Control-Allow-Origin"), "https://shop.example");
  EXPECT_EQ(
      connect().ask(request_text("POST", "/echo", "x", "Origin: https://b.example\r\n")).status,
      403);
}

TEST_F(HttpSecurity, NamesMadeToPointHereAreNotServedWithoutTokens) {
  start();
  const auto status_of = [this](const std::string& host) {
    return connect().ask("GET /hello HTTP/1.1\r\nHost: " + host + "\r\n\r\n").status;
  };
  for (const char* host : {"localhost", "LOCALHOST:80", "127.0.0.1:8080", "127.1.2.3", "[::1]:80",
                           "oncebox.localhost"}) {
    EXPECT_EQ(status_of(host), 200) << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "10.0.0.1", "evillocalhost",
                           "127.evil.example", "127.0.0.1.evil.example"}) {
    EXPECT_EQ(status_of(host), 421) << host;
  }
}

TEST_F(HttpSecurity, AServerWithoutTokensIsNamedByTheTargetToo) {
  start();
  const auto status_of = [this](const std::string& text) { return connect().ask(text).status; };
  EXPECT_EQ(status_of("GET /hello HTTP/1.1\r\nHost:\r\n\r\n"), 421);
  EXPECT_EQ(status_of("GET /hello HTTP/1.0\r\nHost:\r\n\r\n"), 421);
  EXPECT_EQ(status_of("GET http://evil.example/hello HTTP/1.0\r\n\r\n"), 421);
  EXPECT_EQ(status_of("GET http://evil.example:80/hello HTTP/1.0\r\n\r\n"), 421);
  EXPECT_EQ(status_of("GET http://evil.example HTTP/1.0\r\n\r\n"), 421);
  EXPECT_EQ(status_of("GET http:///hello HTTP/1.0\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET http://[::1]evil.example/hello HTTP/1.0\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET http://evil.example@localhost/hello HTTP/1.0\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET http://localhost/hello HTTP/1.0\r\n\r\n"), 200);
  EXPECT_EQ(status_of("GET http://localhost/hello HTTP/1.1\r\nHost: localhost\r\n\r\n"), 200);
}

TEST_F(HttpSecurity, WithoutTokensNothingIsTakenThatAnyPageCouldSend) {
  router.add({.pattern = "/v1/look",
              .scope = Scope::read,
              .handler = [](const ExchangePtr& exchange) { exchange->send(json_response("{}")); }});
  options.cors_origins = {"https://shop.example"};
  start();
  const auto post = [this](const std::string& fields, const std::string& path = "/v1/produce") {
    return connect().ask(request_text("POST", path, "{}", fields)).status;
  };
  const std::string json = "Content-Type: application/json\r\n";
  const std::string cross_site = "Sec-Fetch-Site: cross-site\r\n";
  EXPECT_EQ(post(""), 403);
  EXPECT_EQ(post("Content-Type:\r\n"), 403);
  EXPECT_EQ(post(json), 200);
  EXPECT_EQ(post("Origin: http://localhost\r\n"), 200);
  EXPECT_EQ(post(json + cross_site), 403);
  EXPECT_EQ(post(json + "Sec-Fetch-Site: same-origin\r\n"), 200);
  EXPECT_EQ(post(json + "Sec-Fetch-Site: none\r\n"), 200);
  EXPECT_EQ(post(json + cross_site + "Sec-Fetch-Mode: navigate\r\n"), 403);
  EXPECT_EQ(post(json + cross_site + "Origin: https://shop.example\r\n"), 200);
  EXPECT_EQ(post("", "/echo"), 200) << "what needs no token, as a webhook, is guarded otherwise";

  const auto look = [this](const std::string& fields) {
    return connect().ask(get_text("/v1/look", fields)).status;
  };
  EXPECT_EQ(look(""), 200);
  EXPECT_EQ(look(cross_site + "Sec-Fetch-Mode: no-cors\r\n"), 403);
  EXPECT_EQ(look(cross_site + "Sec-Fetch-Mode: navigate\r\n"), 200) << "a link was followed";
}

TEST_F(HttpSecurity, WithATokenItDoesNotMatterWhatAPageCouldSend) {
  write_tokens("shop produce s3cret-of-the-shop\n");
  start();
  const std::string token = "Authorization: Bearer s3cret-of-the-shop\r\n";
  EXPECT_EQ(connect().ask(request_text("POST", "/v1/produce", "{}", token)).status, 200);
  EXPECT_EQ(
      connect()
          .ask(request_text("POST", "/v1/produce", "{}", token + "Sec-Fetch-Site: cross-site\r\n"))
          .status,
      200);
}

TEST_F(HttpSecurity, WithTokensEveryNameIsServed) {
  write_tokens("shop produce s3cret-of-the-shop\n");
  start();
  EXPECT_EQ(connect().ask("GET /hello HTTP/1.1\r\nHost: shop.example\r\n\r\n").status, 200);
}

TEST_F(HttpSecurity, TlsServesTheSame) {
  use_tls("first");
  start();
  RawClient client = connect_tls();
  EXPECT_EQ(client.server_name(), "first");
  const RawResponse response = client.ask(get_text("/hello"));
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(response.field("Strict-Transport-Security"), HasSubstr("max-age"));
  const std::string body(300'000, 'x');
  EXPECT_TRUE(client.ask(request_text("POST", "/echo", body)).body == body);
  std::string all;
  for (int i = 0; i < 30; ++i) {
    all += request_text("POST", i % 2 == 0 ? "/later" : "/echo", std::to_string(i));
  }
  client.send(all);
  for (int i = 0; i < 30; ++i) EXPECT_EQ(client.receive().body, std::to_string(i));
  EXPECT_EQ(client.ask(get_text("/hello", "Connection: close\r\n")).field("Connection"), "close");
  EXPECT_EQ(client.receive_rest(), "");
}

TEST_F(HttpSecurity, NewConnectionsGetTheNewCertificate) {
  use_tls("first");
  HttpServer& server = start();
  RawClient old = connect_tls();
  use_tls("second");
  server.reload_certificates();
  EXPECT_EQ(connect_tls().server_name(), "second");
  EXPECT_EQ(old.ask(get_text("/hello")).status, 200);
  std::ofstream(options.tls.certificate) << "broken";
  EXPECT_THROW(server.reload_certificates(), Error);
  EXPECT_EQ(connect_tls().server_name(), "second");
}

TEST_F(HttpSecurity, CertificatesThatCannotBeUsedAreRefused) {
  use_tls("first");
  const auto good = options.tls;
  options.tls.certificate = folder.file("nowhere");
  EXPECT_THAT(refusal(), HasSubstr("tls.certificate"));
  options.tls = good;
  options.tls.key = folder.file("nowhere");
  EXPECT_THAT(refusal(), HasSubstr("tls.key"));
  options.tls = good;
  options.tls.key = authority.sign("other", "other").key;
  EXPECT_THAT(refusal(), HasSubstr("tls.key"));
  options.tls = good;
  options.tls.client_ca = folder.file("nowhere");
  EXPECT_THAT(refusal(), HasSubstr("tls.client_ca"));
}

TEST_F(HttpSecurity, IdleConnectionsWithTlsCostLittle) {
  RecordProperty("requirement", "R-38");
  use_tls("first");
  start();
  EXPECT_EQ(connect_tls().ask(get_text("/hello")).status, 200);
  constexpr std::size_t kClients = 300;
  const std::size_t before = resident_bytes();
  std::vector<RawClient> clients;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.push_back(connect_tls());
    ASSERT_EQ(clients.back().ask(request_text("POST", "/echo", "x")).status, 200);
  }
  const std::size_t each = (resident_bytes() - before) / kClients;
  RecordProperty("bytes", std::to_string(each));
  // The clients of the test are in it, too, each with a context of its own.
  EXPECT_TRUE(kIsSanitized || each < std::size_t{110} << 10) << each;
}

/// Sockets that have the lowest free descriptor numbers, each with a byte to read.
class TakenNumbers {
 public:
  TakenNumbers() = default;
  ~TakenNumbers() {
    for (const int socket : sockets_) ::close(socket);
  }
  TakenNumbers(const TakenNumbers&) = delete;
  TakenNumbers& operator=(const TakenNumbers&) = delete;

  /// Takes them, the first time.
  void take() {
    constexpr int kPairs = 32;
    if (!sockets_.empty()) return;
    for (int i = 0; i < kPairs; ++i) {
      int ends[2] = {};
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return;
      for (const int end : ends) {
        sockets_.push_back(end);
        EXPECT_EQ(::send(end, "x", 1, MSG_NOSIGNAL), 1);
      }
    }
  }

  [[nodiscard]] std::size_t with_their_byte() const {
    char byte = 0;
    return static_cast<std::size_t>(std::ranges::count_if(
        sockets_, [&](int socket) { return recv(socket, &byte, 1, MSG_PEEK) == 1; }));
  }
  [[nodiscard]] std::size_t size() const { return sockets_.size(); }

 private:
  std::vector<int> sockets_;
};

TEST_F(HttpSecurity, AResetConnectionTakesNoBytesFromTheNextOneWithItsNumber) {
  options.io_threads = 1;
  use_tls("first");
  const auto numbers = std::make_shared<TakenNumbers>();
  observer.when_one_closes = [numbers] { numbers->take(); };
  start();
  RawClient client = connect_tls();
  client.set_receive_buffer(4'096);
  client.send(get_text("/large/50000000"));
  observer.requests.wait();
  RawClient other = connect_tls();
  // Once that is answered the connection waits to write, and to read the next request.
  EXPECT_EQ(other.ask(get_text("/hello")).status, 200);
  // Both waits end at once. The first to call back closes the socket.
  client.reset();
  observer.wait_for_connections(1);
  EXPECT_EQ(other.ask(get_text("/hello")).status, 200) << "by now the second has called back, too";
  EXPECT_GT(numbers->size(), 0U);
  EXPECT_EQ(numbers->with_their_byte(), numbers->size());
}

TEST_F(HttpSecurity, WhoSpeaksPlainToTlsIsClosed) {
  use_tls("first");
  start();
  RawClient client = connect();
  client.send(get_text("/hello"));
  EXPECT_THAT(client.receive_rest(), Not(HasSubstr("HTTP/1.1 200")));
  observer.wait_for_connections(0);
}

TEST_F(HttpSecurity, AHandshakeHasADeadline) {
  options.limits.request_timeout = Duration{60};
  use_tls("first");
  start();
  RawClient client = connect();
  move_time_until_news(client);
  EXPECT_EQ(client.receive_rest(), "");
}

TEST_F(HttpSecurity, AClientCertificateCanBeRequired) {
  use_tls("first");
  options.tls.client_ca = authority.ca();
  options.tls.require_client_certificate = true;
  options.listen.host = "0.0.0.0";  // the certificates guard it
  start();
  const auto files = authority.sign("client", "Client 1");
  RawClient client = connect_tls(files);
  EXPECT_EQ(
      client.ask(request_text("POST", "/v1/operate", "{}", "Content-Type: application/json\r\n"))
          .body,
      "Client 1");
  RawClient without = connect_tls();
  without.send(get_text("/hello"));
  EXPECT_FALSE(without.try_receive());

  const testing::TemporaryFolder elsewhere;
  TestAuthority other(elsewhere.file(""));
  RawClient stranger = connect_tls(other.sign("client", "Client 1"));
  stranger.send(get_text("/hello"));
  EXPECT_FALSE(stranger.try_receive());
}

TEST_F(HttpSecurity, ACertificateHasTheScopesOfItsLine) {
  use_tls("first");
  options.tls.client_ca = authority.ca();
  write_tokens(
      "worker consume cert:Client 1\n"
      "shop produce s3cret-of-the-shop\n");
  start();
  const auto files = authority.sign("client", "Client 1");
  RawClient client = connect_tls(files);
  EXPECT_EQ(client.ask(request_text("POST", "/v1/consume", "{}")).body, "worker");
  EXPECT_EQ(client.ask(request_text("POST", "/v1/produce", "{}")).status, 403);
  // A token beside it says who it is.
  EXPECT_EQ(client
                .ask(request_text("POST", "/v1/produce", "{}",
                                  "Authorization: Bearer s3cret-of-the-shop\r\n"))
                .body,
            "shop");
  const auto unknown = authority.sign("unknown", "Client 2");
  RawClient other = connect_tls(unknown);
  EXPECT_EQ(other.ask(request_text("POST", "/v1/consume", "{}")).status, 403);
  RawClient without = connect_tls();
  EXPECT_EQ(without.ask(request_text("POST", "/v1/consume", "{}")).status, 401);
}

}  // namespace
}  // namespace oncebox::server
