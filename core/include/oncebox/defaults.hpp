#pragma once

#include <chrono>
#include <cstddef>

#include "oncebox/clock.hpp"

/// The values that hold when nobody says otherwise, in one place.
namespace oncebox::defaults {

inline constexpr Duration kPollInterval{500};
inline constexpr std::size_t kBatchSize = 50;
inline constexpr Duration kLease = std::chrono::seconds{30};
inline constexpr int kMaxAttempts = 10;
inline constexpr int kMaxDeliveries = 2 * kMaxAttempts;
inline constexpr Duration kRetention = std::chrono::days{30};

inline constexpr std::size_t kKeptAttempts = 20;

/// Of messages, without payloads, that are read at a time by whoever goes through many of them.
inline constexpr std::size_t kStepBytes = 1 << 20;

inline constexpr std::size_t kWorkers = 4;
inline constexpr std::size_t kBufferBytes = 16 << 20;
inline constexpr Duration kMaxPollInterval = std::chrono::seconds{10};
inline constexpr Duration kNotifiedPollInterval = std::chrono::minutes{1};
inline constexpr Duration kReapInterval = std::chrono::seconds{30};
inline constexpr Duration kCleanupInterval = std::chrono::minutes{1};
inline constexpr Duration kFinishWithin = std::chrono::seconds{30};
inline constexpr Duration kInterruptWithin = std::chrono::seconds{1};

inline constexpr Duration kDiscoveryInterval = std::chrono::minutes{5};

inline constexpr Duration kAuditRetention = std::chrono::days{365};

inline constexpr Duration kKeyLease = std::chrono::seconds{60};
inline constexpr Duration kKeyRetention = std::chrono::days{30};

}  // namespace oncebox::defaults
