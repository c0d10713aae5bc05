#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "oncebox/clock.hpp"

namespace oncebox {

/// A 128-bit identifier (RFC 9562). A default-constructed one is nil.
class Uuid {
 public:
  using Bytes = std::array<std::uint8_t, 16>;

  constexpr Uuid() = default;
  explicit constexpr Uuid(const Bytes& bytes) : bytes_(bytes) {}

  /// A new version 7 id: 48 bits of Unix milliseconds, then random bits from the kernel. Ids made
  /// in different milliseconds sort by time. Throws `unavailable` when the kernel gives no random
  /// bits.
  [[nodiscard]] static Uuid generate_v7(TimePoint now);

  /// Reads the 36-character form, upper or lower case. Throws `invalid_argument`.
  [[nodiscard]] static Uuid parse(std::string_view text);

  /// The 36-character lower-case form.
  [[nodiscard]] std::string to_string() const;

  [[nodiscard]] constexpr const Bytes& bytes() const noexcept { return bytes_; }
  [[nodiscard]] constexpr bool is_nil() const noexcept { return *this == Uuid(); }

  friend constexpr auto operator<=>(const Uuid&, const Uuid&) = default;

 private:
  Bytes bytes_{};
};

/// A UUID that names one kind of thing, so that an owner cannot be passed where a lease id is
/// meant. It is never nil: the constructor throws `invalid_argument`.
template <class Tag>
class UuidId {
 public:
  explicit UuidId(const Uuid& uuid);

  [[nodiscard]] static UuidId generate(TimePoint now = SystemClock::current()) {
    return UuidId(Uuid::generate_v7(now));
  }
  [[nodiscard]] static UuidId parse(std::string_view text) { return UuidId(Uuid::parse(text)); }

  [[nodiscard]] const Uuid& uuid() const noexcept { return uuid_; }
  [[nodiscard]] std::string to_string() const { return uuid_.to_string(); }

  friend auto operator<=>(const UuidId&, const UuidId&) = default;

 private:
  Uuid uuid_;
};

struct OwnerTokenTag {
  static constexpr std::string_view kWhat = "owner token";
};
struct LeaseIdTag {
  static constexpr std::string_view kWhat = "lease id";
};

/// Who holds a claimed message: one worker process or instance. Keep one for its whole life.
using OwnerToken = UuidId<OwnerTokenTag>;

/// One acquisition of an idempotency key.
using LeaseId = UuidId<LeaseIdTag>;

namespace detail {
void require_not_nil(const Uuid& uuid, std::string_view what);
}

template <class Tag>
UuidId<Tag>::UuidId(const Uuid& uuid) : uuid_(uuid) {
  detail::require_not_nil(uuid, Tag::kWhat);
}

}  // namespace oncebox

template <>
struct std::hash<oncebox::Uuid> {
  [[nodiscard]] std::size_t operator()(const oncebox::Uuid& uuid) const noexcept;
};

template <class Tag>
struct std::hash<oncebox::UuidId<Tag>> {
  [[nodiscard]] std::size_t operator()(const oncebox::UuidId<Tag>& id) const noexcept {
    return std::hash<oncebox::Uuid>{}(id.uuid());
  }
};
