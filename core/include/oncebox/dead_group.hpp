#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/clock.hpp"
#include "oncebox/message.hpp"
#include "oncebox/queue_operator.hpp"

namespace oncebox {

/// An error text without what differs from one failure to the next: times become `<time>`, UUIDs
/// `<uuid>`, quoted parts `<text>`, hexadecimal numbers `<hex>`, other long ids `<id>`, numbers
/// `<n>`; white space becomes one blank. The same for ever, as long as the version stays.
[[nodiscard]] std::string normalise_error(std::string_view error);

/// The last error of a message, normalised. Its own id, source, partition key, correlation,
/// causation and idempotency key become `<id>` as well, so that an error that names them is the
/// same for all messages.
[[nodiscard]] std::string normalise_error(const MessageRecord& record);

/// Which kind of error a text tells of: 16 hexadecimal digits, the same for texts that are equal
/// when normalised, in every process and on every machine.
[[nodiscard]] std::string error_fingerprint(std::string_view error);
[[nodiscard]] std::string error_fingerprint(const MessageRecord& record);

/// Grows when texts are normalised or hashed in another way; fingerprints then differ.
inline constexpr int kErrorFingerprintVersion = 1;

/// The dead of one topic with one kind of error.
struct DeadGroupId {
  std::optional<Topic> topic = {};  ///< nothing: they were never enqueued
  std::string fingerprint;          ///< 16 lower-case hexadecimal digits

  /// `order.created:00ff17a92c03d5e8`, or the fingerprint alone.
  [[nodiscard]] std::string str() const;
  /// Throws `invalid_argument` for a text that `str` never gives.
  [[nodiscard]] static DeadGroupId parse(std::string_view text);

  [[nodiscard]] bool contains(const MessageRecord& record) const;

  friend auto operator<=>(const DeadGroupId&, const DeadGroupId&) = default;
};

/// The group that a dead message belongs to.
[[nodiscard]] DeadGroupId dead_group_of(const MessageRecord& record);

struct DeadGroup {
  static constexpr std::size_t kMaxErrorBytes = 512;

  DeadGroupId id;
  std::string error;  ///< normalised, cut to `kMaxErrorBytes`
  std::size_t count = 0;
  TimePoint first_at{};  ///< when the first and the last of them died
  TimePoint last_at{};
  MessageKey sample;  ///< one that died last

  friend bool operator==(const DeadGroup&, const DeadGroup&) = default;
};

struct DeadGroupsRequest {
  MessageFilter filter = {};          ///< of the dead; a status must not be named
  std::size_t max_groups = 1'000;     ///< to be remembered
  std::size_t max_records = 100'000;  ///< to be looked at, those that were stored last
};

struct DeadGroups {
  std::vector<DeadGroup> groups;  ///< the largest first
  std::size_t messages = 0;       ///< that were looked at
  std::size_t others = 0;         ///< of them, those of further groups
  bool complete = true;           ///< whether all were looked at
};

}  // namespace oncebox
