#include <exception>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "failing_allocations.hpp"
#include "http/answers.hpp"
#include "http/connection.hpp"
#include "http/socket_connection.hpp"
#include "http_fixture.hpp"
#include "oncebox/error.hpp"

namespace oncebox::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using NoMemory = HttpTest;

/// A connection without a socket.
class SilentConnection final : public Connection {
 public:
  using Connection::Connection;

  bool has_begun = false;

 private:
  void start_handshake() override { has_begun = true; }
  void start_read(char*, std::size_t) override {}
  void start_write(const char*, std::size_t) override {}
  std::size_t write_now(const char*, std::size_t size, IoResult&) override { return size; }
  bool start_shutdown() override { return false; }
  void close_socket() noexcept override {}
};

TEST(EventLoopTest, ATaskThatThrowsDoesNotKeepTheOthersFromRunning) {
  std::promise<void> running;
  std::promise<void> open;
  std::promise<void> ran;
  EventLoop loop(std::chrono::milliseconds{500});
  loop.start();
  loop.post([&, gate = open.get_future().share()] {
    running.set_value();
    gate.wait();
  });
  running.get_future().wait();
  // They run one after the other, at once.
  loop.post([] { throw std::bad_alloc(); });
  loop.post([&] { ran.set_value(); });
  open.set_value();
  EXPECT_EQ(ran.get_future().wait_for(std::chrono::seconds{60}), std::future_status::ready);
  loop.stop();
}

TEST_F(NoMemory, AConnectionThatWasMadeNeedsNoneToStart) {
  const std::string peer = "192.0.2.1";
  authenticator.emplace(options.auth, logger);
  HttpService service(options, router, *authenticator, logger, observer, clock);
  const auto loop = std::make_shared<EventLoop>(std::chrono::milliseconds{500});
  const auto connection = std::make_shared<SilentConnection>(loop, service, peer);
  ConnectionPlace place = service.admit(service.address_of(peer), kPlainConnectionBytes);
  {
    const FailingAllocation no_memory(0);
    connection->start(std::move(place));
  }
  EXPECT_TRUE(connection->has_begun);
  EXPECT_EQ(loop->connections().size(), 1U);
  connection->cut();
  EXPECT_TRUE(loop->connections().empty());
  EXPECT_EQ(observer.connections(), 0);
}

TEST_F(NoMemory, TheLastAnswerNeedsNone) {
  const auto failure = std::make_exception_ptr(Error(ErrorCode::conflict, "so it is"));
  const Request request{.path = "/"};
  std::optional<Response> response;
  {
    const FailingAllocation no_memory(0);
    response = failure_response(failure, request);
  }
  EXPECT_EQ(response->status, 500);
  EXPECT_EQ(response->body, "");
}

TEST_F(NoMemory, ARequestThatNobodyAnswersDoesNotEndTheServer) {
  options.io_threads = 1;
  start();
  RawClient client = connect();
  client.send(get_text("/held"));
  held.wait();
  // By now the loop has left the handler, and the test has the last share.
  EXPECT_EQ(connect().ask(get_text("/hello")).status, 200);
  {
    const FailingAllocation no_memory(0);
    held.clear();
  }
  client.reset();
  observer.wait_for_connections(0);
  EXPECT_EQ(connect().ask(get_text("/hello")).status, 200);
}

TEST_F(NoMemory, PiecesOfAStreamAreSentAtTheNextTick) {
  options.limits.idle_timeout = Duration{40};  // a tick is an eighth of the shortest deadline
  start();
  RawClient client = connect();
  client.send(get_text("/events"));
  const auto stream = streams.wait();
  std::string all;
  for (int allocations = 0; allocations < 5; ++allocations) {
    const std::string text = "piece " + std::to_string(allocations) + " of a stream;";
    all += text;
    std::string piece = text;
    bool is_sent = false;
    {
      const FailingAllocation no_memory(allocations);
      is_sent = stream->write(std::move(piece));
    }
    EXPECT_TRUE(is_sent) << allocations;
    (void)client.peek_until(text);
  }
  {
    const FailingAllocation no_memory(0);
    stream->end();
  }
  EXPECT_EQ(client.receive().body, all);
}

TEST_F(NoMemory, AStreamEndsWhenAPieceCannotBeKept) {
  options.io_threads = 1;
  std::promise<void> blocked;
  std::promise<void> open;
  router.add({.pattern = "/blocks",
              .scope = Scope::open,
              .handler = [&, gate = open.get_future().share()](const ExchangePtr& exchange) {
                blocked.set_value();
                gate.wait();
                exchange->send(json_response("{}"));
              }});
  start();
  RawClient client = connect();
  client.send(get_text("/events"));
  const auto stream = streams.wait();
  RawClient blocking = connect();
  blocking.send(get_text("/blocks"));
  blocked.get_future().wait();
  // The loop takes none of them meanwhile.
  EXPECT_TRUE(stream->write(std::string(1'000, 'a')));
  std::string second(1'000, 'b');
  bool is_sent = true;
  {
    const FailingAllocation no_memory(0);
    is_sent = stream->write(std::move(second));
  }
  EXPECT_FALSE(is_sent);
  open.set_value();
  EXPECT_EQ(blocking.receive().status, 200);
  EXPECT_THAT(client.receive_rest(), Not(HasSubstr("aaa")));
}

}  // namespace
}  // namespace oncebox::server
