#include "http_keys.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "oncebox/driver/call_scope.hpp"
#include "oncebox/wire/key_json.hpp"
#include "oncebox/wire/operator_json.hpp"

namespace oncebox::http {

namespace {

constexpr std::size_t kVersionByte = 6;
constexpr std::uint8_t kVersion8 = 0x80;

bool is_own(const LeaseId& lease_id) {
  return (lease_id.uuid().bytes()[kVersionByte] & 0xf0) == kVersion8;
}

LeaseId make_own_lease_id() {
  Uuid::Bytes bytes = Uuid::generate_v7(SystemClock::current()).bytes();
  bytes[kVersionByte] = static_cast<std::uint8_t>((bytes[kVersionByte] & 0x0f) | kVersion8);
  return LeaseId(Uuid(bytes));
}

TimePoint lease_end(Duration lease) { return SystemClock::current() + lease; }

bool is_out_of_reach(ErrorCode code) {
  return code == ErrorCode::unavailable || code == ErrorCode::timeout ||
         code == ErrorCode::outcome_unknown || code == ErrorCode::overloaded;
}

ApiCall post(std::string_view name, std::string body, Effect effect) {
  return {.path = "/keys/" + std::string(name), .body = std::move(body), .effect = effect};
}

}  // namespace

template <class Call, class Open>
auto HttpKeys::fail_open(std::string_view name, Call call, Open open) {
  const Options& options = client_.options();
  if (options.on_unavailable == OnUnavailable::fail_closed) return call();
  try {
    return call();
  } catch (const Error& error) {
    // A caller in a hurry does not mean that the service is away.
    if (!is_out_of_reach(error.code()) || CallScope::current().is_over()) throw;
    if (options.on_failed_open) options.on_failed_open({.call = name, .error = error});
  }
  return open();
}

template <class Outcome, class Item, class Call, class Own>
std::vector<Outcome> HttpKeys::for_known_leases(std::span<const Item> items, Call call, Own own) {
  std::vector<Item> known;
  for (const Item& item : items) {
    if (!is_own(item.lease_id)) known.push_back(item);
  }
  std::vector<Outcome> answered;
  if (!known.empty()) answered = call(std::span<const Item>(known));
  std::vector<Outcome> outcomes;
  outcomes.reserve(items.size());
  auto next = answered.begin();
  for (const Item& item : items) {
    outcomes.push_back(is_own(item.lease_id) ? own(item) : *next++);
  }
  return outcomes;
}

std::vector<BeginOutcome> HttpKeys::do_begin(std::span<const BeginRequest> requests) {
  return fail_open(
      "begin",
      [&] {
        // Not repeated: the second try would find the lease of the first.
        return client_.call_batch(post("begin", wire::write_begins(requests), Effect::changes),
                                  requests.size(), wire::read_begun);
      },
      [&] {
        std::vector<BeginOutcome> outcomes;
        for (const BeginRequest& request : requests) {
          outcomes.push_back({.status = BeginStatus::acquired,
                              .lease_id = make_own_lease_id(),
                              .lease_until = lease_end(request.lease),
                              .attempts = 1});
        }
        return outcomes;
      });
}

std::vector<CompleteOutcome> HttpKeys::do_complete(std::span<const CompleteRequest> requests) {
  std::vector<CompleteRequest> known(requests.begin(), requests.end());
  for (CompleteRequest& request : known) {
    if (request.lease_id && is_own(*request.lease_id)) request.lease_id.reset();
  }
  return fail_open(
      "complete",
      [&] {
        return client_.call_batch(post("complete", wire::write_completions(known), Effect::repeats),
                                  known.size(), wire::read_completed);
      },
      [&] { return std::vector<CompleteOutcome>(requests.size(), CompleteOutcome::processed); });
}

std::vector<FailOutcome> HttpKeys::do_fail(std::span<const FailRequest> requests) {
  const auto fail_known = [&](std::span<const FailRequest> known) {
    return fail_open(
        "fail",
        [&] {
          return client_.call_batch(post("fail", wire::write_key_failures(known), Effect::repeats),
                                    known.size(), wire::read_keys_failed);
        },
        [&] { return std::vector<FailOutcome>(known.size(), FailOutcome::failed); });
  };
  return for_known_leases<FailOutcome>(requests, fail_known,
                                       [](const FailRequest&) { return FailOutcome::failed; });
}

std::vector<ReleaseOutcome> HttpKeys::do_release(std::span<const ReleaseRequest> requests) {
  const auto release_known = [&](std::span<const ReleaseRequest> known) {
    return fail_open(
        "release",
        [&] {
          return client_.call_batch(
              post("release", wire::write_key_releases(known), Effect::repeats), known.size(),
              wire::read_keys_released);
        },
        [&] { return std::vector<ReleaseOutcome>(known.size(), ReleaseOutcome::released); });
  };
  return for_known_leases<ReleaseOutcome>(
      requests, release_known, [](const ReleaseRequest&) { return ReleaseOutcome::released; });
}

std::vector<KeyExtendOutcome> HttpKeys::do_extend(std::span<const KeyExtension> extensions) {
  const auto prolong = [](const KeyExtension& extension) {
    return KeyExtendOutcome{lease_end(extension.lease)};
  };
  const auto extend_known = [&](std::span<const KeyExtension> known) {
    return fail_open(
        "extend",
        [&] {
          return client_.call_batch(
              post("extend", wire::write_key_extensions(known), Effect::repeats), known.size(),
              wire::read_keys_extended);
        },
        [&] {
          std::vector<KeyExtendOutcome> outcomes;
          for (const KeyExtension& extension : known) outcomes.push_back(prolong(extension));
          return outcomes;
        });
  };
  return for_known_leases<KeyExtendOutcome>(extensions, extend_known, prolong);
}

std::vector<std::optional<KeyRecord>> HttpKeys::do_find(std::span<const IdempotencyKey> keys) {
  return fail_open(
      "find",
      [&] {
        std::vector<std::optional<KeyRecord>> records;
        while (records.size() < keys.size()) {
          const auto rest = keys.subspan(records.size());
          std::ranges::move(
              client_.call_some(post("find", wire::write_key_names(rest), Effect::reads),
                                rest.size(), wire::read_key_records),
              std::back_inserter(records));
        }
        return records;
      },
      [&] { return std::vector<std::optional<KeyRecord>>(keys.size()); });
}

std::size_t HttpKeys::do_cleanup(std::size_t limit) {
  return client_.call(post("cleanup", wire::write_limit(limit), Effect::changes), wire::read_count);
}

}  // namespace oncebox::http
