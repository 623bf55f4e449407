"""The critic is as steep as it may be, a step moves one player, and both scores are checked."""

import numpy as np
import torch
from twins import twin

from normbook.lab import data
from normbook.studies import spectral_norm as gan

RNG = np.random.default_rng(0)
DIGITS = data.digits(np.random.default_rng(0))


def critic():
    """With the exact singular vectors of each layer."""
    net = gan.layers((64, 20, 20, 1), np.random.default_rng(1))
    found = [torch.linalg.svd(w.detach()) for w, _ in net]
    return net, [(u[:, 0], vt[0]) for u, _, vt in found]


def have_the_variance(layers):
    """Two over the number of inputs, for every layer; no bias."""
    net = layers((300, 200, 400), np.random.default_rng(0))
    sizes = [(w.var() * w.shape[1] / 2).item() for w, _ in net]
    return np.allclose(sizes, 1, rtol=0.03) and all((b == 0).all() for _, b in net)


def test_the_weights_have_the_variance_of_he():
    assert have_the_variance(gan.layers)
    assert not have_the_variance(twin(gan.layers, "(2 / inputs)", "(2 / outputs)"))


def shares_the_bound(bounded, bound=5.0):
    """The spectral norms of the three layers are alike, and their product is the bound."""
    sizes = [torch.linalg.norm(w, 2).item() for w, _ in bounded(*critic(), bound)]
    return np.allclose(sizes, bound ** (1 / 3), rtol=1e-9)


def test_the_layers_of_a_bounded_critic_multiply_to_its_bound():
    assert shares_the_bound(gan.bounded)
    for error in (("bound ** (1 / len(net))", "bound"), ("gain * spectral_norm", "spectral_norm")):
        assert not shares_the_bound(twin(gan.bounded, *error)), error


def steepest(net):
    """Of a critic, between a thousand pairs of digits."""
    x, y = (torch.tensor(DIGITS.x_train[RNG.permutation(1437)]) for _ in range(2))
    rises = (gan.dense(net, x) - gan.dense(net, y)).abs().squeeze() / (x - y).norm(dim=1)
    return rises.nan_to_num().max().item()


def test_no_two_images_are_further_apart_for_a_bounded_critic():
    net, pairs = critic()
    assert steepest(gan.bounded(net, pairs, 0.1)) < 0.1 < steepest(net)


def aligned(one, other):
    return abs(abs((one * other).sum().item()) - 1) < 1e-6


def finds_the_singular_vectors(iterate):
    net, exact = critic()
    pairs = [(gan.normal(RNG, len(w)), gan.normal(RNG, w.shape[1])) for w, _ in net]
    for _ in range(300):
        pairs = iterate(net, pairs)
    both = zip(pairs, exact, strict=True)
    return all(aligned(u, u_) and aligned(v, v_) for (u, v), (u_, v_) in both)


def test_power_iteration_finds_the_singular_vectors():
    assert finds_the_singular_vectors(gan.iterate)
    assert not finds_the_singular_vectors(twin(gan.iterate, "(w, u, v)", "(w**2, u, v)"))


def one_layer(weight):
    return [(torch.full((1, 64), weight).double(), torch.zeros(1).double())]


def judge_both_players(critic_loss, generator_loss):
    """Where the critic says 0 it loses 2 log 2, and log 2 is what the generator loses. Only the
    generator's loss reaches the generator, and pulls its images to where the critic says more."""
    x = torch.rand(9, 64, dtype=torch.float64, requires_grad=True)
    losses = [loss(one_layer(0.0), x, x).item() for loss in (critic_loss, generator_loss)]
    of_critic = critic_loss(one_layer(1.0), torch.zeros_like(x), x)
    pull = torch.autograd.grad(generator_loss(one_layer(1.0), x, x), x)[0]
    return np.allclose(losses, np.log([4, 2])) and not of_critic.requires_grad and pull.max() < 0


def test_the_losses_are_the_non_saturating_ones():
    assert judge_both_players(gan.critic_loss, gan.generator_loss)
    leaking = twin(gan.critic_loss, "fake.detach()", "fake")
    assert not judge_both_players(leaking, gan.generator_loss)
    turned = twin(gan.generator_loss, "-dense(critic, fake)", "dense(critic, fake)")
    assert not judge_both_players(gan.critic_loss, turned)


def moves_one_player(step):
    """The loss depends on both players, and the optimizer is that of the first."""
    players = [gan.layers((3, 4, 1), np.random.default_rng(seed)) for seed in (0, 1)]
    before = [net[0][0].detach().clone() for net in players]
    x = gan.normal(np.random.default_rng(2), 5, 3)
    step(gan.adam(players[0], 0.1), sum((gan.dense(net, x) ** 2).sum() for net in players))
    moved = [not torch.equal(net[0][0], w) for net, w in zip(players, before, strict=True)]
    return moved == [True, False] and players[1][0][0].grad is None


def test_a_step_moves_one_player_and_leaves_no_gradient_on_the_other():
    assert moves_one_player(gan.step)
    through_both = twin(
        gan.step, "    parameters = ", "    loss.backward(retain_graph=True)\n    parameters = "
    )
    assert not moves_one_player(through_both)
    assert not moves_one_player(twin(gan.step, "p.grad = gradient", "pass"))


def drawn(train=gan.train, **setting):
    """Images by the generator before the first step and after every one."""
    setting = {"bound": 1.0, "rate": 0.01, "seed": 3, "steps": 3} | setting
    return np.array([gan.samples(net, 3) for net, _ in train(DIGITS.x_train, **setting)])


def yields_the_start_and_every_step(train):
    images = drawn(train)
    return len(images) == 4 and np.abs(np.diff(images, axis=0)).max(axis=(1, 2)).min() > 0


def test_training_yields_the_start_and_every_step_and_repeats():
    assert yields_the_start_and_every_step(gan.train)
    critic_alone = twin(gan.train, "adam(generator, rate)", "adam(critic, rate)")
    assert not yields_the_start_and_every_step(critic_alone)
    images = drawn()
    assert np.array_equal(images, drawn())
    for setting in ({"bound": None}, {"bound": 8.0}, {"rate": 0.02}):
        other = drawn(**setting)
        assert np.array_equal(other[0], images[0]) and not np.array_equal(other[-1], images[-1])
    assert not np.array_equal(drawn(seed=4)[0], images[0])


def is_the_distance_of_gaussians(frechet):
    """0 to itself; |b|² to itself moved by b; 4 times the variance to three times itself."""
    x = RNG.standard_normal((200, 4)) @ RNG.standard_normal((4, 4))
    x, b = x - x.mean(axis=0), np.array([1.0, 2.0, 0.0, -1.0])
    found = frechet(x, x), frechet(x, x + b), frechet(x, 3 * x)
    return np.allclose(found, [0, 6, 4 * x.var(axis=0).sum()], atol=1e-6)


def test_the_frechet_distance_of_moved_and_scaled_samples_is_known():
    assert is_the_distance_of_gaussians(gan.frechet)
    for error in (("2 * roots.sum()", "roots.sum()"), ("gap @ gap + ", ""), ("c1 @ c2", "c1 @ c1")):
        assert not is_the_distance_of_gaussians(twin(gan.frechet, *error)), error


class Says:
    """A classifier whose answers are known."""

    def __init__(self, labels):
        self.labels = np.array(labels)

    def predict(self, images):
        return self.labels


def counts_classes(judge):
    found = []
    for labels in ([7] * 6, [1, 1, 2, 2], list(range(10))):
        judge.classifier = Says(labels)
        found.append(judge.classes(np.zeros((len(labels), 64))))
    return np.allclose(found, [1, 2, 10])


def test_the_number_of_classes_is_that_of_equally_frequent_ones():
    assert counts_classes(gan.Judge(DIGITS))
    assert not counts_classes(twin(gan.Judge, "share * np.log(share)", "share * share")(DIGITS))


def follows(judge):
    """The distance of the generator as it is at each checkpoint."""
    setting = {"bound": None, "rate": 0.01, "seed": 1}
    found = judge.follow(DIGITS.x_train, (0, 2), **setting)
    nets = gan.train(DIGITS.x_train, **setting, steps=2)
    distances = [judge.distance(gan.samples(net, 1000)) for net, _ in nets]
    return len(found["classes"]) == 2 and np.allclose(found["distance"], distances[::2], atol=1e-6)


def test_the_judge_follows_the_generator_at_the_checkpoints():
    judge = gan.Judge(DIGITS)
    assert judge.distance(DIGITS.x_test) < 1e-9 < judge.distance(DIGITS.x_train) < 1
    assert judge.distance(RNG.random((300, 64))) > 1
    assert follows(judge)
    assert not follows(twin(gan.Judge, "if number in", "if number + 1 in")(DIGITS))


def lags_less_than_new_vectors(one_iteration):
    found = one_iteration(1)
    return found["kept"] < found["new"] / 2


def test_one_iteration_is_nearer_from_the_vectors_of_the_step_before():
    assert lags_less_than_new_vectors(gan.one_iteration)
    anew = twin(gan.one_iteration, "1 - 1 / np.linalg.norm(w, 2)", "shortfall(w, *new_pair(w))")
    anew.__globals__["new_pair"] = lambda w: map(np.ones, w.shape)
    assert not lags_less_than_new_vectors(anew)
