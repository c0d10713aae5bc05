#include "oncebox/testing/fault_injecting_key_store.hpp"

#include <utility>

#include "oncebox/error.hpp"

namespace oncebox::testing {

FaultInjectingKeyStore::FaultInjectingKeyStore(IdempotencyStore& below, Plan plan)
    : below_(below), plan_(std::move(plan)) {}

template <class Call>
auto FaultInjectingKeyStore::perhaps_failing(std::string_view name, Call call) {
  const Fault fault = plan_(name);
  if (fault == Fault::before) throw Error(ErrorCode::unavailable, "injected: store unavailable");
  auto answer = call();
  if (fault == Fault::after) throw Error(ErrorCode::outcome_unknown, "injected: answer lost");
  return answer;
}

std::vector<BeginOutcome> FaultInjectingKeyStore::do_begin(std::span<const BeginRequest> requests) {
  return perhaps_failing("begin", [&] { return below_.begin(requests); });
}

std::optional<BeginStatus> FaultInjectingKeyStore::do_recognise(std::string_view key,
                                                                FailedKeyPolicy on_failed) {
  return perhaps_failing("recognise", [&] { return below_.recognise(key, on_failed); });
}

std::vector<CompleteOutcome> FaultInjectingKeyStore::do_complete(
    std::span<const CompleteRequest> requests) {
  return perhaps_failing("complete", [&] { return below_.complete(requests); });
}

std::vector<FailOutcome> FaultInjectingKeyStore::do_fail(std::span<const FailRequest> requests) {
  return perhaps_failing("fail", [&] { return below_.fail(requests); });
}

std::vector<ReleaseOutcome> FaultInjectingKeyStore::do_release(
    std::span<const ReleaseRequest> requests) {
  return perhaps_failing("release", [&] { return below_.release(requests); });
}

std::vector<KeyExtendOutcome> FaultInjectingKeyStore::do_extend(
    std::span<const KeyExtension> extensions) {
  return perhaps_failing("extend", [&] { return below_.extend(extensions); });
}

std::vector<std::optional<KeyRecord>> FaultInjectingKeyStore::do_find(
    std::span<const IdempotencyKey> keys) {
  return perhaps_failing("find", [&] { return below_.find(keys); });
}

std::size_t FaultInjectingKeyStore::do_cleanup(std::size_t limit) {
  return perhaps_failing("cleanup", [&] { return below_.cleanup(limit); });
}

}  // namespace oncebox::testing
