// A store over HTTP and a real service: what the conformance suite does not look at.
#include <gtest/gtest.h>

#include <fstream>
#include <future>

#include "expect_error.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/http/http_store.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/memory/memory_store.hpp"
#include "oncebox/receive/idempotent_receiver.hpp"
#include "oncebox/server/server.hpp"
#include "oncebox/testing/temporary_folder.hpp"
#include "raw_client.hpp"

namespace oncebox::http {
namespace {

using namespace std::chrono_literals;

Message message(const std::string& id) { return {.key = {"shop", id}, .topic = "t"}; }

/// A service of two stores, "main" and "other".
class HttpService : public ::testing::Test {
 protected:
  HttpService() {
    options_.listen.port = 0;
    options_.auth.token_variable = "";
    options_.access_log = server::AccessLog::off;
    options_.io_threads = 1;
    options_.call_threads = 2;
  }

  void start() {
    server_ = std::make_unique<server::Server>(
        options_,
        std::vector<server::NamedStore>{{.name = "main", .store = main_},
                                        {.name = "other", .store = other_}},
        Surroundings{.logger = logger_, .clock = clock_});
    server_->start();
  }

  /// `localhost`, for which the certificate is.
  [[nodiscard]] Options options(const std::string& scheme = "http") const {
    return {.url = scheme + "://localhost:" + std::to_string(server_->port()),
            .connect_timeout = 60s,
            .call_timeout = 60s,
            .max_retries = 0};
  }

  void write_tokens(const std::string& lines) {
    options_.auth.token_file = folder_.file("tokens");
    std::ofstream(options_.auth.token_file) << lines;
  }

  testing::TemporaryFolder folder_;
  server::ServerOptions options_;
  memory::MemoryStore main_;
  memory::MemoryStore other_;
  NullLogger logger_;
  SystemClock clock_;
  std::unique_ptr<server::Server> server_;
};

TEST_F(HttpService, StoresAreChosenByName) {
  start();
  Options to_other = options();
  to_other.store = "other";
  HttpStore other(to_other);
  other.inbox().enqueue(message("a"));
  EXPECT_TRUE(other_.inbox().find({"shop", "a"}));
  EXPECT_FALSE(main_.inbox().find({"shop", "a"}));
  HttpStore standard(options());
  EXPECT_FALSE(standard.inbox().find({"shop", "a"}));
  Options to_nobody = options();
  to_nobody.store = "nobody";
  HttpStore nobody(to_nobody);
  expect_error(ErrorCode::not_found, [&] { nobody.inbox().enqueue(message("a")); });
}

TEST_F(HttpService, KeysAreKeptAsTheServiceSaysUnlessTheCallerSaysOtherwise) {
  RecordProperty("requirement", "KIN-09");
  options_.retention.keys = 1h;
  start();
  HttpStore store(options());
  store.keys().begin({.key = "begun"});
  store.keys().complete({.key = "done"});
  store.keys().complete({.key = "kept", .retention = 2h});
  IdempotentReceiver<int, std::string>::over(store.keys(), [](int) { return std::string(); })
      .build()
      .receive({.headers = Headers{{"idempotencyKey", "received"}}, .payload = 1});
  const auto kept_for = [&](const IdempotencyKey& key) {
    const KeyRecord record = main_.keys().find(key).value();
    // A key is completed some time after it was last seen.
    return std::chrono::round<std::chrono::minutes>(record.keep_until - record.last_seen_at);
  };
  for (const char* key : {"begun", "done", "received"}) EXPECT_EQ(kept_for(key), 1h) << key;
  EXPECT_EQ(kept_for("kept"), 2h);
}

TEST_F(HttpService, ATokenAllowsWhatItsScopesSay) {
  write_tokens("sender produce send-secret\nworker consume work-secret\n");
  start();
  Options as_sender = options();
  as_sender.token = "send-secret";
  HttpStore sender(as_sender);
  // An inbox asks for the store's limits; this token does not let it.
  EXPECT_EQ(Inbox(sender).enqueue(message("a")).status, EnqueueStatus::accepted);
  const std::string refusal = expect_error(ErrorCode::invalid_argument, [&] {
    (void)sender.inbox().claim({.owner = OwnerToken::generate()});
  });
  EXPECT_TRUE(refusal.starts_with("forbidden")) << refusal;

  Options as_worker = options();
  as_worker.token = "work-secret";
  HttpStore worker(as_worker);
  EXPECT_EQ(worker.inbox().claim({.owner = OwnerToken::generate()}).size(), 1U);

  HttpStore stranger(options());
  EXPECT_TRUE(expect_error(ErrorCode::invalid_argument, [&] {
                stranger.inbox().enqueue(message("b"));
              }).starts_with("unauthorized"));
}

TEST_F(HttpService, TheTrailNamesTheTokenAndHasEverythingOnce) {
  write_tokens("ops operate ops-secret\n");
  main_.inbox().enqueue(message("a"));
  main_.inbox().mark({.key = {"shop", "a"}, .as = MarkAs::dead});
  start();
  Options as_ops = options();
  as_ops.token = "ops-secret";
  HttpStore store(as_ops);
  const std::vector<EditedMessage> edits{{.key = {"shop", "a"}, .payload = "new"}};
  const AuditEntry entry{.actor = "somebody", .action = AuditAction::revive_edited};
  audited(
      store.audit(), entry,
      [&] { return store.inbox_operator().revive_edited(edits, {.reason = "why", .actor = "me"}); },
      [](const auto& outcomes) { return outcomes.size(); });
  const std::vector<AuditRecord> records = main_.audit().list().records;
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].entry.actor, "ops");
  EXPECT_EQ(records[0].entry.reason, "why");
  EXPECT_EQ(store.audit().list().records, records);
  EXPECT_EQ(main_.inbox_operator().past_contents({"shop", "a"}).at(0).replaced_by, "ops");
  store.inbox_operator().purge_matching({}, 5, {.reason = "too old"});
  store.inbox_operator().cleanup({.reason = "full"});
  EXPECT_EQ(main_.audit().list().records.at(1).entry.reason, "too old");
  EXPECT_EQ(main_.audit().list().records.at(0).entry.reason, "full");
}

TEST_F(HttpService, OverTlsWithCertificatesOnBothSides) {
  server::TestAuthority authority(folder_.file(""));
  const auto service = authority.sign("server", "localhost");
  const auto client = authority.sign("client", "Client 1");
  options_.tls = {.certificate = service.certificate,
                  .key = service.key,
                  .client_ca = authority.ca(),
                  .require_client_certificate = true};
  start();
  Options known = options("https");
  known.ca_file = authority.ca();
  known.client_certificate = client.certificate;
  known.client_key = client.key;
  HttpStore store(known);
  EXPECT_EQ(store.inbox().enqueue(message("a")).status, EnqueueStatus::accepted);

  Options distrustful = known;
  distrustful.ca_file.clear();
  HttpStore no_trust(distrustful);
  expect_error(ErrorCode::unavailable, [&] { no_trust.inbox().enqueue(message("b")); });

  Options anonymous = known;
  anonymous.client_certificate.clear();
  anonymous.client_key.clear();
  HttpStore no_certificate(anonymous);
  EXPECT_THROW(no_certificate.inbox().enqueue(message("b")), Error);
  EXPECT_FALSE(main_.inbox().find({"shop", "b"}));
}

TEST_F(HttpService, ADispatcherHearsOfWorkWithoutPolling) {
  start();
  HttpStore workers(options());
  std::promise<void> handled;
  Handlers handlers;
  handlers.on("t", [&](const ClaimedMessage&, HandlerContext&) { handled.set_value(); });
  Dispatcher dispatcher(workers.inbox(), handlers,
                        {.workers = 1, .poll_interval = 1h, .max_poll_interval = 1h});
  dispatcher.start();
  HttpStore senders(options());
  senders.inbox().enqueue(message("a"));
  EXPECT_EQ(handled.get_future().wait_for(60s), std::future_status::ready);
}

}  // namespace
}  // namespace oncebox::http
