"""Random resized crops and colours, image by image and pixel by pixel, in float64."""

import colorsys
import math

import numpy as np


def box(tries, place, aspect, ratio):
    """Left, top, width and height of the box in a picture of that aspect, as shares of its sides."""
    width, height = aspect, 1.0
    for area, logarithm in tries:
        across = math.sqrt(area * width * height * math.exp(logarithm))
        down = math.sqrt(area * width * height / math.exp(logarithm))
        if across <= width and down <= height:
            left, top = place[0] * (width - across), place[1] * (height - down)
            return left / width, top / height, across / width, down / height
    across, down = width, height
    if aspect < ratio[0]:
        down = width / ratio[0]
    elif aspect > ratio[1]:
        across = height * ratio[1]
    return (width - across) / 2 / width, (height - down) / 2 / height, across / width, down / height


def cut_out(image, found, flip, shape):
    """The box of an image [H, W, C], brought to another size by bilinear sampling."""
    left, top, across, down = found
    rows, columns, _ = image.shape
    result = np.zeros((*shape, image.shape[2]))
    for row in range(shape[0]):
        for column in range(shape[1]):
            at = shape[1] - 1 - column if flip else column
            x = (left + across * (at + 0.5) / shape[1]) * columns - 0.5
            y = (top + down * (row + 0.5) / shape[0]) * rows - 0.5
            result[row, column] = _between(image, y, x)
    return result


def _between(image, y, x):
    rows, columns, _ = image.shape
    y, x = min(max(y, 0), rows - 1), min(max(x, 0), columns - 1)
    above, before = math.floor(y), math.floor(x)
    below, behind = min(above + 1, rows - 1), min(before + 1, columns - 1)
    down, across = y - above, x - before
    first = (1 - across) * image[above, before] + across * image[above, behind]
    second = (1 - across) * image[below, before] + across * image[below, behind]
    return (1 - down) * first + down * second


def jittered(image, factors):
    """Brightness, contrast and saturation, one after the other, within 0 … 255."""
    brightness, contrast, saturation = factors
    bright = np.clip(image * brightness, 0, 255)
    mean = np.mean([grey(pixel) for row in bright for pixel in row])
    contrasted = np.clip(contrast * bright + (1 - contrast) * mean, 0, 255)
    if image.shape[2] == 1:
        return contrasted
    greys = np.array([[[grey(pixel)] for pixel in row] for row in contrasted])
    return np.clip(saturation * contrasted + (1 - saturation) * greys, 0, 255)


def grey(pixel):
    return pixel[0] if len(pixel) == 1 else 0.299 * pixel[0] + 0.587 * pixel[1] + 0.114 * pixel[2]


def pasted(image, partner, box):
    """CutMix of one image [H, W, C]: pixels whose centre lies in the box are the partner's; the share of own pixels."""
    left, top, across, down = box
    result, kept = np.array(image, dtype=np.float64), 0
    rows, columns, _ = image.shape
    for row in range(rows):
        for column in range(columns):
            x, y = (column + 0.5) / columns, (row + 0.5) / rows
            if left <= x < left + across and top <= y < top + down:
                result[row, column] = partner[row, column]
            else:
                kept += 1
    return result, kept / (rows * columns)


def turned(image, turn):
    """An image [H, W, 3] on a scale of 0 … 255 with its hues turned, pixel by pixel through the standard library."""
    result = np.empty_like(image)
    for place in np.ndindex(image.shape[:2]):
        hue, saturation, value = colorsys.rgb_to_hsv(*(image[place] / 255))
        result[place] = 255 * np.array(colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value))
    return result


def greyed(image):
    """The grey of each pixel in all three channels."""
    result = np.empty_like(image)
    for place in np.ndindex(image.shape[:2]):
        result[place] = grey(image[place])
    return result
