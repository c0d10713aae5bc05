#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/message.hpp"
#include "oncebox/queue_types.hpp"

namespace oncebox {

/// A claim that waits, because the queue is empty, so that an enqueue can store new messages as
/// claimed and hand them over, in one commit instead of two. It is a short cut and nothing else: no
/// store has to take an offer, and a worker that makes one claims as usual whenever there may be
/// something to claim.
///
/// **Order.** An offer is to be made only after a claim that left nothing, and not to be taken any
/// more once a `WorkListener` has heard of work. So what was enqueued through the same store object
/// is handed out in order. What became claimable at the same moment by the passing of time, or in
/// another process, may be passed, as if a second worker had taken it.
///
/// **Threads.** Every call is safe from any thread, but `observe`.
class ClaimOffer {
 public:
  explicit ClaimOffer(ClaimRequest request);
  virtual ~ClaimOffer() = default;
  ClaimOffer(const ClaimOffer&) = delete;
  ClaimOffer& operator=(const ClaimOffer&) = delete;

  [[nodiscard]] const ClaimRequest& request() const noexcept { return request_; }

  /// Called with the messages that are handed over, before the worker that offered gets them. Must
  /// not throw, nor call the store. To be added before a store has the offer.
  using Observe = std::function<void(std::span<const ClaimedMessage> claimed)>;
  void observe(Observe observe) { observers_.push_back(std::move(observe)); }

  // For the worker that offers
  // ------------------------------------------------------------------------

  /// True: no store has taken it, and none will. False: a store has, and `on_answer` is called
  /// once, unless it was already.
  bool withdraw() noexcept;

  // For a store; see `ClaimOffers` ----------------------------------------------------------------

  /// Whether a claim with this request could hand out all of these at once, were they new and alone
  /// in the queue. Not for those with a partition key, a due time or an expiry.
  [[nodiscard]] bool accepts(std::span<const Message> messages) const noexcept;
  /// True for one caller at a time, which then calls `answer` or `give_back`.
  [[nodiscard]] bool take() noexcept;
  /// The messages are stored, durably, and leased to the owner of the request.
  void answer(std::vector<ClaimedMessage> claimed) noexcept;
  /// Nothing was stored, or that is unknown; a lease that was taken lapses. Other enqueues may take
  /// the offer.
  void give_back() noexcept;

 private:
  enum class State {
    open,
    taken,
    recalled,  ///< taken, and not to be given back to others
    closed,
  };

  /// Asked before it is taken: whether the offer still stands. No lock is held, here and below.
  virtual bool on_take() noexcept { return true; }
  /// Called once at most. Nothing was handed over if there are no messages: it was given back after
  /// it could no longer be withdrawn. Must not call the store.
  virtual void on_answer(std::vector<ClaimedMessage> claimed) noexcept = 0;

  const ClaimRequest request_;
  std::vector<Observe> observers_;
  std::atomic<State> state_ = State::open;
};

/// An offer that was taken, until it is answered; given back when it is not.
class TakenOffer {
 public:
  TakenOffer() = default;  ///< none
  explicit TakenOffer(std::shared_ptr<ClaimOffer> taken) : offer_(std::move(taken)) {}
  ~TakenOffer() {
    if (offer_) offer_->give_back();
  }
  TakenOffer(TakenOffer&&) noexcept = default;
  TakenOffer& operator=(TakenOffer&&) = delete;

  explicit operator bool() const noexcept { return offer_ != nullptr; }
  [[nodiscard]] const ClaimRequest& request() const noexcept { return offer_->request(); }
  void answer(std::vector<ClaimedMessage> claimed) noexcept {
    std::exchange(offer_, nullptr)->answer(std::move(claimed));
  }

 private:
  std::shared_ptr<ClaimOffer> offer_;
};

/// The offers of one queue, for a store that answers them. One leaves by being destroyed. Every
/// call is safe from any thread.
class ClaimOffers {
 public:
  void add(const std::shared_ptr<ClaimOffer>& offer);
  /// Takes an offer that accepts all of these messages, if there is one.
  [[nodiscard]] TakenOffer take_for(std::span<const Message> messages) const noexcept;

 private:
  using List = std::vector<std::weak_ptr<ClaimOffer>>;

  mutable detail::Mutex mutex_;
  // Replaced as a whole, so that taking allocates nothing and calls offers without the lock.
  std::shared_ptr<const List> offers_ ONCEBOX_GUARDED_BY(mutex_) = std::make_shared<const List>();
};

}  // namespace oncebox
