// Runs an operation once for each key and answers every repetition with the first result: what an
// HTTP service does with an Idempotency-Key header.
//
// usage: example_idempotency_keys [STORE-URL]

#include <iostream>
#include <string>

#include "example_store.hpp"

namespace {

using namespace oncebox;

int charges = 0;

std::string charge_card(const std::string& request) {
  if (request == "declined") throw std::runtime_error("the card was declined");
  return "receipt " + std::to_string(++charges);
}

std::string handle(IdempotencyStore& keys, const IdempotencyKey& key, const std::string& request) {
  const BeginOutcome begun = keys.begin({.key = key, .owner = "web-1"});
  switch (begun.status) {
    case BeginStatus::processed:
      return "again: " + begun.result.value_or("");
    case BeginStatus::busy:
      return "somebody is at it; come again";
    case BeginStatus::failed:  // only with FailedKeyPolicy::suppress
      return "failed before: " + begun.error.value_or("");
    case BeginStatus::acquired:
      break;
  }
  std::string receipt;
  try {
    receipt = charge_card(request);
  } catch (const std::exception& error) {
    keys.fail({.key = key, .lease_id = *begun.lease_id, .error = error.what()});
    return std::string("failed: ") + error.what();
  }
  // Outside of the try block: a store that is away does not mean that the charge failed. With the
  // lease id, because somebody may have taken over meanwhile.
  keys.complete({.key = key, .lease_id = begun.lease_id, .result = receipt});
  return receipt;
}

}  // namespace

int main(int argc, char** argv) {
  const ExampleStore store(argc, argv);
  IdempotencyStore& keys = store->keys();
  std::cout << handle(keys, "order-1", "42 EUR") << '\n';
  std::cout << handle(keys, "order-1", "42 EUR") << '\n';
  std::cout << handle(keys, "order-2", "declined") << '\n';
  std::cout << handle(keys, "order-2", "another card") << '\n';

  // A process that dies leaves its key behind. Until the lease ends everybody else is told to wait.
  const BeginOutcome abandoned = keys.begin({.key = "order-3", .owner = "web-2"});
  std::cout << handle(keys, "order-3", "7 EUR") << '\n';
  keys.release({.key = "order-3", .lease_id = *abandoned.lease_id});
  std::cout << handle(keys, "order-3", "7 EUR") << '\n';
}
