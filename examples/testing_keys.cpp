// Testing a handler behind an idempotency key against a store that fails: before the work, which is
// harmless, and after it, when the work is done and nobody has written that down.

#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "oncebox/memory/memory_store.hpp"
#include "oncebox/receive/idempotent_receiver.hpp"
#include "oncebox/testing/fault_injecting_key_store.hpp"

namespace {

using namespace oncebox;

struct Order {
  std::string id;
};

struct Receipt {
  int number = 0;
};

void expect(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
  std::cout << what << '\n';
}

/// Where the key is: the same order is the same work, whoever sends it and however it is spelt.
SelectedKey key_of(const Order& order) {
  return order.id.starts_with('#') ? order.id.substr(1) : order.id;
}

}  // namespace

// How a receipt is kept with its key, for duplicates.
template <>
struct oncebox::ResultCodec<Receipt> {
  static std::string encode(const Receipt& receipt) { return std::to_string(receipt.number); }
  static std::optional<Receipt> decode(std::string_view text) {
    return Receipt{std::stoi(std::string(text))};
  }
};

int main() {
  memory::MemoryStore store;
  std::string_view failing_call;
  testing::FaultInjectingKeyStore keys(store.keys(), [&](std::string_view call) {
    return call == failing_call ? testing::Fault::before : testing::Fault::none;
  });
  int booked = 0;
  const auto book = [&](const Order&) { return Receipt{++booked}; };
  auto receiver = IdempotentReceiver<Order, Receipt>::over(keys, book)
                      .key_by(key_of)
                      .on_duplicate(DuplicatePolicy::replay_completed)
                      .verdict_tries({.count = 1})
                      .build();
  const Headers headers;
  const auto receive = [&](const Order& order) {
    return receiver.receive({.headers = headers, .payload = order});
  };

  failing_call = "begin";
  try {
    receive({"order-1"});
  } catch (const Error& error) {
    expect(error.retryable() && booked == 0, "nothing was done: the sender comes again");
  }

  failing_call = "complete";
  try {
    receive({"order-1"});
  } catch (const UnrecordedSuccess& success) {
    expect(booked == 1, "it was booked, and the store does not know");
    failing_call = "";
    keys.complete(success.completion());
  }
  const Received<Receipt> again = receive({"#order-1"});
  expect(again.status == ReceiveStatus::replayed && again.result->number == 1 && booked == 1,
         "written down later, it is not booked again");
}
