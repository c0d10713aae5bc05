// Messages that are sent only if a transaction of one's own commits: on a connection of the caller,
// with BEGIN and COMMIT of the caller, into the outbox of the same file.

#include <chrono>
#include <iostream>
#include <semaphore>
#include <stdexcept>
#include <string>

#include "example_database.hpp"
#include "example_folder.hpp"
#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "oncebox/inbox.hpp"
#include "oncebox/open_store.hpp"
#include "oncebox/outbox.hpp"
#include "oncebox/sqlite/transaction.hpp"

using namespace std::chrono_literals;

namespace {

using namespace oncebox;

/// The shop: writes an order on its own connection, and says so to others in the same transaction.
class Shop {
 public:
  Shop(const std::string& path, Outbox& outbox)
      : connection_(path), transaction_(connection_.handle()), outbox_(outbox) {}

  void execute(const char* sql) const { (*connection_).execute(sql); }

  void place_order(const Message& request, const std::string& customer) {
    const std::string order = request.key.message_id.str();
    (*connection_).execute("INSERT OR IGNORE INTO placed VALUES (?1, ?2)", {order, customer});
    for (const char* topic : {"order.placed", "order.paid"}) {
      const OutboxReceipt receipt = outbox_.enqueue({.topic = topic,
                                                     .payload = order,
                                                     .id = derived_id(request.key, topic),
                                                     .partition_key = customer},
                                                    transaction_, request);
      std::cout << topic << ": " << to_string(receipt.outcome.status) << '\n';
    }
  }

  [[nodiscard]] std::int64_t orders() const {
    return (*connection_).number("SELECT count(*) FROM placed");
  }

 private:
  ExampleConnection connection_;
  sqlite::JoinedTransaction transaction_;
  Outbox& outbox_;
};

}  // namespace

int main() {
  const ExampleFolder folder;
  const std::string path = folder / "shop.db";
  const auto store = open_store("sqlite:" + path);
  Outbox outbox(*store, {.source = "shop"});
  Shop shop(path, outbox);
  shop.execute("CREATE TABLE placed (id TEXT PRIMARY KEY, customer TEXT NOT NULL)");

  // The receiver, somewhere else. The answer to the first message is lost on its way back.
  const auto receiver = open_store("memory:");
  Inbox warehouse(*receiver);
  std::counting_semaphore<> accepted(0);
  Publishers publishers;
  publishers.on("order.*", [&](const ClaimedMessage& claimed, HandlerContext&) {
    const EnqueueOutcome outcome = warehouse.enqueue(claimed.message);
    std::cout << "published " << claimed.message.topic << ", the receiver says "
              << to_string(outcome.status) << '\n';
    const bool first_time = claimed.history.attempt == 0;
    if (claimed.message.topic == "order.placed" && first_time) {
      throw std::runtime_error("the answer was lost");
    }
    accepted.release();
  });
  OutboxDispatcher sending(*store, publishers);
  sending.start();

  const Message request{
      .key = {.source = "web", .message_id = "order-1"},
      .topic = "order.place",
      .headers = {{"correlationId", "session-7"},
                  {"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}};
  shop.execute("BEGIN IMMEDIATE");
  shop.place_order(request, "ann");
  shop.execute("ROLLBACK");
  std::cout << "rolled back: " << shop.orders() << " orders, " << store->outbox_operator().count({})
            << " messages\n";

  shop.execute("BEGIN IMMEDIATE");
  shop.place_order(request, "ann");
  std::cout << "not yet committed: " << store->outbox_operator().count({}) << " messages\n";
  shop.execute("COMMIT");
  for (int message = 0; message < 2; ++message) {
    if (!accepted.try_acquire_for(30s)) throw std::runtime_error("nothing happens");
  }
  sending.stop();
  std::cout << "committed: " << shop.orders() << " order\n";

  // The same request comes again.
  shop.execute("BEGIN IMMEDIATE");
  shop.place_order(request, "ann");
  shop.execute("COMMIT");

  const MessageKey key{"shop", derived_id(request.key, "order.placed").str()};
  const Headers headers = receiver->inbox().find(key).value().message.value().headers;
  for (const char* name : {"correlationId", "causationId", "traceparent"}) {
    std::cout << name << ": " << headers.get(name).value_or("-") << '\n';
  }
}
