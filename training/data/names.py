"""Lists first names of many languages, to be exchanged in training pairs."""

from collections.abc import Mapping
from types import MappingProxyType


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Those that the pairs have, with f or m, so that what agrees with them still does.
COMMON: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(_words("Tom John Jim Bob Ken Bill Mike Jack George Dick Jackson Roger Fred Peter Paul David"), "m")
    | dict.fromkeys(_words("Mary Alice Jane Nancy Betty Emily Kate Lucy Linda Susan Ann Helen Emi Yumi Meg"), "f")
)
MALE = _words(
    """
    Adam Ahmed Akira Alan Alejandro Alex Ali Amir Andrei Andrew Anton Antonio Arjun Arthur Ben Bruno Carlos Chen
    Chidi Christian Daniel Dario Dmitri Eduardo Eli Emil Emre Eric Ethan Farid Felix Fernando Filip Francis
    Frank Gabriel Giorgio Giovanni Goran Greg Gustav Hamid Hans Harry Hassan Henrik Henry Hiroshi Hugo Ibrahim
    Igor Ilya Isaac Ivan Jacob Jamal James Jan Javier Jean Jens Joao Joe Jonas Jorge Jose Joseph Juan Julian
    Kamal Karim Karl Kenji Kevin Kofi Kwame Lars Leo Leon Li Liam Louis Luca Lucas Luis Magnus Manuel Marc Marco
    Mark Martin Mateo Matthew Max Mehmet Michael Miguel Milan Mohamed Nathan Nicolas Nils Noah Oleg Oliver Omar
    Oscar Pablo Patrick Pavel Pedro Philip Pierre Rahul Raj Ravi Ricardo Richard Robert Roberto Rui Ryan Sam
    Samir Samuel Sergei Simon Stefan Steve Sven Takeshi Tariq Thomas Tim Tomas Umar Victor Viktor Vikram Wang
    Wei William Xavier Yann Youssef Yuri Yusuf Zhang Ziad
    """
)
FEMALE = _words(
    """
    Ada Aisha Alba Amelia Amina Amy Ana Anastasia Andrea Angela Anita Anna Anne Astrid Aylin Barbara Beatriz
    Bianca Camila Carla Carmen Caroline Catherine Cecilia Chiara Chloe Clara Claudia Diana Dina Elena Elif Elisa
    Elsa Emma Esther Eva Fatima Fiona Gabriela Giulia Grace Greta Hana Hannah Helena Ida Ines Ingrid Irene Irina
    Isabel Jasmine Jessica Joan Johanna Judith Julia Julie Karen Katarina Keiko Kim Lara Laura Layla Lea Leila
    Lena Lin Lisa Lola Lucia Luisa Magda Maria Marie Marina Marta Maya Mei Mia Michiko Mila Mina Miriam Monica
    Nadia Natalia Nina Noor Nora Olga Olivia Paula Petra Pilar Priya Rachel Rania Rita Rosa Ruth Samira Sandra
    Sara Sarah Shreya Silvia Sofia Sonia Sophie Svetlana Tanja Tara Teresa Ulrike Ursula Valentina Vera Victoria
    Yasmin Yoko Yuki Zahra Zainab Zoe
    """
)
